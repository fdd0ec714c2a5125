// Tiny diffusion language models with what the families' own code computed (shared/fixtures/diffusion).
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
  std::vector<std::vector<TokenId>> calls;  // by blocks: what is not in the cache
};

struct DiffusionFixture {
  std::string name;
  std::filesystem::path folder;  // config.json and *.safetensors
  TokenId mask = 0;
  std::vector<TokenId> masked;
  ExpectedRows logits;  // of `masked`: [tokens, vocab_size]
  std::vector<TokenId> prompt;
  std::vector<DiffusionCase> cases;
  std::vector<DiffusionCase> cached_cases;  // with approximate caches: calls are what each pass computes
};

// The fixtures of tests/data/seeded/diffusion.
std::vector<DiffusionFixture> diffusion_fixtures();
DiffusionFixture diffusion_fixture(const std::string& name);

}  // namespace tp::reference
