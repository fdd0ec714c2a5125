// Tiny encoder-decoders, and results of the family's original modelling code (tests/data/seeded/seq2seq).
#pragma once

#include "tests/reference/expected_rows.h"
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
  ExpectedRows encoder;         // [ids, hidden_size]
  ExpectedRows logits;          // [decoder_ids, vocab_size]
  TokenId greedy_start = 0;     // the decoder's first token
  std::vector<TokenId> greedy;  // continues greedy_start, without forced or banned tokens
  ExpectedRows greedy_rows;     // [greedy, vocab_size]
  // Sequences that were computed together, with padded inputs.
  std::vector<Seq2SeqInput> batch;
  std::vector<ExpectedRows> batch_encoder;  // [ids, hidden_size]
  std::vector<ExpectedRows> batch_logits;   // [decoder_ids, vocab_size]
};

std::vector<Seq2SeqFixture> seq2seq_fixtures();
Seq2SeqFixture seq2seq_fixture(const std::string& name);

}  // namespace tp::reference
