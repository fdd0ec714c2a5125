// Tiny encoders with what the family's original modelling code computed (shared/fixtures/encoders).
#pragma once

#include "model/weights/checkpoint/npy.h"
#include "tp/token_id.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tp::reference {

// A sequence, as input.json has it or a row of batch.json without its padding.
struct EncoderInput {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> types;      // empty: all 0
  std::vector<std::uint8_t> is_global;  // empty: none
};

struct EncoderFixture {
  std::string name;
  std::filesystem::path folder;  // config.json and *.safetensors
  EncoderInput input;
  NpyArray hidden;                    // [tokens, hidden_size], the last one
  std::optional<NpyArray> logits;     // [tokens, vocab_size], or [labels]
  std::optional<NpyArray> pooler;     // [hidden_size]
  std::optional<NpyArray> embedding;  // of the pipeline of modules.json
  // Sequences that were computed together, padded; what the padding has is 0.
  std::vector<EncoderInput> batch;
  std::optional<NpyArray> batch_hidden;     // [rows, padded tokens, hidden_size]
  std::optional<NpyArray> batch_embedding;  // [rows, size]
  std::optional<NpyArray> batch_logits;     // of classifiers: [rows, labels]
};

// All of shared/fixtures where that folder is, else the few of tests/data.
std::vector<EncoderFixture> encoder_fixtures();
// One of tests/data, which is always there.
EncoderFixture encoder_fixture(const std::string& name);

}  // namespace tp::reference
