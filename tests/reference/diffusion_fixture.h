// Tiny diffusion language models, and results of the families' own code (shared/fixtures/diffusion).
#pragma once

#include "tests/reference/expected_rows.h"
#include "tp/token_id.h"
#include "tp/unmasking.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tp::reference {

// One generation, and the token ids at every call of the model.
struct DiffusionCase {
  std::string algorithm;
  int max_tokens = 0;
  Unmasking settings;
  std::vector<TokenId> result;              // prompt included
  std::vector<std::vector<TokenId>> calls;  // by blocks: tokens outside the cache
};

struct DiffusionFixture {
  std::string name;
  std::filesystem::path folder;  // config.json and *.safetensors
  TokenId mask = 0;
  std::vector<TokenId> masked;
  ExpectedRows logits;  // logits of `masked`: [tokens, vocab_size]
  std::vector<TokenId> prompt;
  std::vector<DiffusionCase> cases;
  std::vector<DiffusionCase> cached_cases;  // with approximate caches: calls are what each pass computes
};

// One generation of a canvas model.
struct CanvasCase {
  std::size_t canvases = 0;
  CanvasDefaults settings;
  std::vector<TokenId> result;                     // without the prompt
  std::vector<std::vector<std::size_t>> accepted;  // [passes], positions in the canvas
  std::vector<std::vector<TokenId>> best;          // [passes], the most probable tokens
};

struct CanvasFixture {
  std::filesystem::path folder;
  std::vector<TokenId> prompt;
  // Three passes over given canvases. Each pass reads the previous one's soft embeddings.
  std::vector<std::vector<TokenId>> canvases;
  std::vector<ExpectedRows> logits;         // [passes], each [canvas, vocab_size]
  std::vector<std::vector<TokenId>> noise;  // tokens that replace random ones, one canvas after another
  std::vector<CanvasCase> cases;
};

// The fixtures of tests/data/seeded/diffusion with masks.
std::vector<DiffusionFixture> diffusion_fixtures();
CanvasFixture canvas_fixture(const std::string& name);
DiffusionFixture diffusion_fixture(const std::string& name);

}  // namespace tp::reference
