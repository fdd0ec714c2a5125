// Requests whose texts must not change with draft tokens.
#pragma once

#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/engine.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

// Returns a prompt that repeats itself, so that it gives drafts.
inline std::vector<TokenId> repetitive_prompt(const reference::Fixture& fixture, std::size_t size,
                                              std::size_t period) {
  std::vector<TokenId> prompt;
  for (std::size_t i = 0; i < size; ++i) prompt.push_back(fixture.prompt[i % period % fixture.prompt.size()]);
  return prompt;
}

inline Request drawn(std::vector<TokenId> prompt, std::uint64_t seed) {
  Request request = greedy_request(std::move(prompt), 36);
  request.sampling.temperature = 0.8F;
  request.sampling.seed = seed;
  request.sampling.logprobs = 2;
  // A bias makes a few tokens likely, so they recur.
  for (TokenId id = 40; id < 46; ++id) request.sampling.logit_bias.push_back({id, 9.0F});
  return request;
}

inline Request thinking_request(std::vector<TokenId> prompt) {
  Request request = greedy_request(std::move(prompt), 30);
  request.thinking = ThinkingLimit{.max_tokens = 6,
                                   .begin = ModelFolder::decoded({600, 601}),
                                   .end = ModelFolder::decoded({50, 51, 52}),
                                   .end_ids = {50, 51, 52},
                                   .has_begun = true};
  return request;
}

// Returns requests with every kind of setting that influences the choice of a token or the end of a text.
inline std::vector<Request> speculated_requests(const reference::Fixture& fixture) {
  const auto prompt = [&](std::size_t size, std::size_t period) {
    return repetitive_prompt(fixture, size, period);
  };
  std::vector<Request> requests = {greedy_request(prompt(20, 7), 40), greedy_request(prompt(9, 9), 40)};
  for (std::uint64_t seed = 1; seed < 5; ++seed) requests.push_back(drawn(prompt(10 + seed, 5), seed));
  requests[2].n = 3;
  requests[3].sampling.repetition_penalty = 0.8F;
  requests[3].sampling.frequency_penalty = 0.3F;
  requests[4].sampling.top_p = 0.7F;
  requests[4].sampling.presence_penalty = -1.0F;
  requests[5].sampling.top_k = 3;
  requests[5].min_tokens = 12;
  requests[5].stop_token_ids = {41, 43};
  requests.push_back(greedy_request(prompt(12, 4), 40));
  requests.back().sampling.repetition_penalty = 1.2F;
  requests.back().bad_words_ids = {{40}, {41, 42}};
  requests.push_back(drawn(prompt(8, 3), 9));
  requests.back().constraint = Constraint(constraint::Regex{"((bo|bp)(bq|br)?){4,12}bs(bt)*"});
  requests.push_back(drawn(prompt(8, 3), 10));
  requests.back().stop = {ModelFolder::decoded({42, 44}), ModelFolder::decoded({45, 45})};
  requests.push_back(thinking_request(prompt(10, 4)));
  requests.push_back(drawn(prompt(10, 4), 11));
  requests.back().speculate = false;
  return requests;
}

inline void expect_same_answer(const Continuation& found, const Continuation& expected) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.text, expected.text);
  EXPECT_EQ(found.logprobs, expected.logprobs);
  EXPECT_EQ(found.reason, expected.reason);
  EXPECT_EQ(found.matched_stop, expected.matched_stop);
  EXPECT_EQ(found.error, expected.error);
  ASSERT_EQ(found.top_logprobs.size(), expected.top_logprobs.size());
  for (std::size_t i = 0; i < found.top_logprobs.size(); ++i) {
    for (std::size_t j = 0; j < found.top_logprobs[i].size(); ++j)
      EXPECT_EQ(found.top_logprobs[i][j].logprob, expected.top_logprobs[i][j].logprob);
  }
}

inline void expect_same_answers_to(const Continuations& found, const Continuations& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [key, one] : expected) {
    SCOPED_TRACE(testing::Message() << "request " << key.first << ", sample " << key.second);
    EXPECT_TRUE(one.error.empty()) << one.error;
    expect_same_answer(found.at(key), one);
  }
}

// Returns rank 0's answers without drafts.
inline Continuations plain_answers(const EngineOptions& options, const std::vector<Request>& requests) {
  Continuations expected;
  run_engine(world(), options, [&](Engine& engine) {
    expected = answers_to(engine, requests);
    EXPECT_EQ(engine.status().speculation.drafts, 0U);
  });
  return expected;
}

// `min`: the test expects more accepted tokens than this, and some rejected ones.
inline void expect_no_change(EngineOptions options, const std::vector<Request>& requests,
                             const Continuations& expected, std::uint64_t min = 20) {
  run_engine(world(), options, [&](Engine& engine) {
    expect_same_answers_to(answers_to(engine, requests), expected);
    const SpeculationCounts counts = engine.status().speculation;
    if (!options.speculation.always) return;
    EXPECT_GT(counts.accepted_tokens(), min) << "the test proves nothing";
    EXPECT_LT(counts.accepted_tokens() + 5, counts.drafted_tokens()) << "the test proves nothing";
  });
}

// Compares answers with and without drafts for several sizes of chunks, batches and caches.
inline void expect_no_change_however_steps_are_cut(EngineOptions options,
                                                   const std::vector<Request>& requests,
                                                   std::uint64_t min = 20) {
  struct Cut {
    std::size_t tokens, chunk, sequences, block_size, cache_tokens;
  };
  for (const Cut& cut :
       {Cut{1, 512, 16, 8, 0}, Cut{15, 16, 3, 4, 0}, Cut{8, 9, 16, 4, 260}, Cut{15, 64, 2, 1, 180}}) {
    SCOPED_TRACE(testing::Message() << cut.tokens << " tokens, chunks of " << cut.chunk << ", "
                                    << cut.sequences << " sequences, cache of " << cut.cache_tokens);
    // If layers have windows, the last bits depend on where blocks end.
    options.block_size = cut.block_size;
    EngineOptions plain = options;
    plain.speculation = {};
    const Continuations expected = plain_answers(plain, requests);
    EngineOptions drafted = options;
    drafted.speculation.tokens = cut.tokens;
    drafted.prefill_chunk = cut.chunk;
    drafted.max_sequences = cut.sequences;
    drafted.cache_tokens = cut.cache_tokens;
    expect_no_change(drafted, requests, expected, min);
  }
}

}  // namespace tp::test
