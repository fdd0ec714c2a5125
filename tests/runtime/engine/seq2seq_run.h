// Helpers to run encoder-decoder models in tests.
#pragma once

#include "tests/reference/seq2seq_fixture.h"
#include "tests/runtime/engine/engine_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace tp::test {

inline Request seq2seq_request(const reference::Seq2SeqInput& input) {
  Request request;
  request.prompt = input.ids;
  request.decoder_prompt = input.decoder_ids;
  request.max_tokens = 0;
  return request;
}

// Collects rows of the decoder's logits, [decoder_ids, vocab_size].
inline void collect_logits(Engine& engine, const reference::Seq2SeqInput& input, std::vector<float>& all) {
  Request request = seq2seq_request(input);
  request.prompt_logits = true;
  engine.submit(std::move(request), [&all](const Event& event) {
    const auto* rows = std::get_if<PromptLogits>(&event);
    if (rows == nullptr) return;
    EXPECT_EQ(rows->first * rows->vocab_size, all.size());
    all.insert(all.end(), rows->logits.begin(), rows->logits.end());
  });
}

inline std::vector<float> decoder_logits(Engine& engine, const reference::Seq2SeqInput& input) {
  std::vector<float> all;
  collect_logits(engine, input, all);
  while (engine.has_work()) engine.step();
  return all;
}

// Returns the encoder's states, [ids, hidden_size].
inline std::vector<float> encoder_states(Engine& engine, const reference::Seq2SeqInput& input) {
  return hidden_of(engine, seq2seq_request(input));
}

// Continues the decoder's start, without tokens that the model's files force or ban.
inline Request greedy_seq2seq(std::vector<TokenId> input, int max_tokens) {
  return greedy_request(std::move(input), max_tokens);
}

inline double largest_difference(std::span<const float> found, std::span<const float> expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double apart = std::abs(static_cast<double>(found[i]) - expected[i]);
    largest = std::isnan(apart) ? std::numeric_limits<double>::infinity() : std::max(largest, apart);
  }
  return largest;
}

}  // namespace tp::test
