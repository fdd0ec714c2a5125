// Tiny checkpoints with logits that the family's original modelling code computed (shared/fixtures).
#pragma once

#include "model/weights/checkpoint/npy.h"
#include "tp/token_id.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tp::reference {

struct Fixture {
  std::string name;
  std::filesystem::path folder;  // config.json and *.safetensors
  std::vector<TokenId> prompt;
  std::vector<TokenId> greedy;  // the argmax continuation, which an end-of-sequence token does not stop
  NpyArray logits;              // [prompt, vocab_size]
  double noise = 0.0;           // of float32 in them, against float64; 0 where it was not measured
};

// Those of these families: all of shared/fixtures where that folder is, else the few of tests/data. Their
// weights are floats.
std::vector<Fixture> fixtures_of(const std::vector<std::string>& architectures);
// The same with weights that are quantized.
std::vector<Fixture> quantized_fixtures_of(const std::vector<std::string>& architectures);

// Whether shared/fixtures is here.
bool has_all_fixtures();

// GGUF models: all of shared/fixtures where that folder is, else the few of tests/data.
std::vector<Fixture> gguf_fixtures();

// One of tests/data, which is always there.
Fixture fixture(const std::string& name);

// The diffusion model Dream with its config.json as a Qwen2's: its logits are those of a bidirectional
// prompt.
Fixture bidirectional_fixture();

}  // namespace tp::reference
