// Tiny encoder-decoders with what the family's original modelling code computed (shared/fixtures/seq2seq).
#pragma once

#include "model/weights/checkpoint/npy.h"
#include "tp/token_id.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tp::reference {

struct Seq2SeqInput {
  std::vector<TokenId> ids;
  std::vector<TokenId> decoder_ids;
};

struct Seq2SeqFixture {
  std::string name;
  std::filesystem::path folder;  // config.json and *.safetensors
  Seq2SeqInput input;
  NpyArray encoder;             // [ids, hidden_size]
  NpyArray logits;              // [decoder_ids, vocab_size]
  std::vector<TokenId> greedy;  // continues the token that the decoder begins with; nothing forced or banned
  NpyArray greedy_logits;       // [greedy, vocab_size]
  // Sequences that were computed together, with padded inputs.
  std::vector<Seq2SeqInput> batch;
  NpyArray batch_encoder;  // [rows, padded ids, hidden_size]
  NpyArray batch_logits;   // [rows, decoder_ids, vocab_size]
};

// All of shared/fixtures where that folder is, else the few of tests/data.
std::vector<Seq2SeqFixture> seq2seq_fixtures();
// One of tests/data, which is always there.
Seq2SeqFixture seq2seq_fixture(const std::string& name);

}  // namespace tp::reference
