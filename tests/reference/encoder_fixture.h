// Tiny encoders, and results of the family's original modelling code (tests/data/seeded/encoders).
#pragma once

#include "tests/reference/expected_rows.h"
#include "tp/token_id.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tp::reference {

// A sequence from input.json, or a row of batch.json without its padding.
struct EncoderInput {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> types;      // empty: all 0
  std::vector<std::uint8_t> is_global;  // empty: none
};

struct EncoderFixture {
  std::string name;
  std::filesystem::path folder;  // config.json and *.safetensors
  EncoderInput input;
  ExpectedRows hidden;                          // [tokens, hidden_size], the last one
  std::optional<ExpectedRows> logits;           // [tokens, vocab_size]
  std::optional<std::vector<float>> labels;     // [labels], of classifiers
  std::optional<std::vector<float>> pooler;     // [hidden_size]
  std::optional<std::vector<float>> embedding;  // output of the pipeline in modules.json
  // Sequences that were computed together with padding. Results for the padding are unknown.
  std::vector<EncoderInput> batch;
  std::vector<ExpectedRows> batch_hidden;           // empty: there is none
  std::vector<std::vector<float>> batch_embedding;  // empty: there is none
  std::vector<std::vector<float>> batch_labels;
};

std::vector<EncoderFixture> encoder_fixtures();
// `task`: the adapter in use, if the model has adapters for tasks; empty: none.
EncoderFixture encoder_fixture(const std::string& name, const std::string& task = {});

}  // namespace tp::reference
