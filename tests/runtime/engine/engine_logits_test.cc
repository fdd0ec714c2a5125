// Numbers that the engine returns in addition to tokens, such as logits.
#include "tests/mpi_test.h"
#include "tests/reference/diffusion_fixture.h"
#include "tests/reference/log_softmax.h"
#include "tests/runtime/engine/engine_run.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::Continuation;
using test::greedy_request;
using test::run_alone;
using test::run_engine;

// As in decoder_fixtures_test.
constexpr float kLogitTolerance = 1e-4F;

std::vector<std::vector<float>> logits_of(Engine& engine, const std::vector<TokenId>& tokens,
                                          bool bidirectional = false) {
  std::vector<std::vector<float>> rows;
  const auto append = [&](std::size_t position, std::span<const float> row) {
    EXPECT_EQ(position, rows.size());
    rows.emplace_back(row.begin(), row.end());
  };
  engine.logits(tokens, append, bidirectional);
  return rows;
}

TEST(EngineLogits, MatchTheFixtureForEveryPrefillChunk) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-12q3kv");
  for (const std::size_t chunk : {1U, 7U, 512U}) {
    run_engine(comm, {.model = fixture.folder, .prefill_chunk = chunk, .block_size = 8}, [&](Engine& engine) {
      const auto rows = logits_of(engine, fixture.prompt);
      ASSERT_EQ(rows.size(), fixture.prompt.size());
      for (std::size_t position = 0; position < rows.size(); ++position) {
        EXPECT_LE(fixture.rows.difference(position, rows[position]), kLogitTolerance);
      }
    });
  }
}

// Dream is a Qwen2 with bidirectional attention in the prompt. Its original code gives the expected logits.
TEST(EngineLogits, MatchADiffusionModelForBidirectionalPrompts) {
  Communicator& comm = test::world();
  const reference::DiffusionFixture dream = reference::diffusion_fixture("dream");
  const test::TemporaryDirectory qwen;
  std::filesystem::copy(dream.folder / "model.safetensors", qwen.path() / "model.safetensors");
  nlohmann::json config = nlohmann::json::parse(std::ifstream(dream.folder / "config.json"));
  config.update({{"architectures", {"Qwen2ForCausalLM"}}, {"model_type", "qwen2"}});
  qwen.write("config.json", config.dump());
  run_engine(comm, {.model = qwen.path(), .block_size = 8}, [&](Engine& engine) {
    const auto causal = logits_of(engine, dream.masked);
    const auto rows = logits_of(engine, dream.masked, true);
    ASSERT_EQ(rows.size(), dream.masked.size());
    for (std::size_t position = 0; position < rows.size(); ++position)
      EXPECT_LE(dream.logits.difference(position, rows[position]), kLogitTolerance);
    EXPECT_EQ(logits_of(engine, dream.masked), causal) << "blocks of the bidirectional prompt are found";
    EXPECT_NE(rows, causal);
  });
}

TEST(EngineLogits, IncludeTheMostLikelyTokensOfAPrompt) {
  Communicator& comm = test::world();
  const reference::StoredFixture fixture = reference::stored_fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder, .prefill_chunk = 5, .block_size = 8}, [&](Engine& engine) {
    std::size_t cached = 0;
    for (const std::size_t from : {1, 9}) {  // the second prompt finds scores of the first one
      Request request = greedy_request(fixture.prompt, 2);
      request.score_from = from;
      request.score_top = from == 1 ? 4 : 3;
      std::vector<std::vector<TokenLogprob>> top;
      std::size_t generated = 0;
      engine.submit(request, [&](const Event& event) {
        if (std::holds_alternative<TokenEvent>(event)) ++generated;
        if (const auto* end = std::get_if<RequestFinished>(&event)) cached = end->cached_tokens;
        if (const auto* some = std::get_if<PromptLogprobs>(&event)) {
          EXPECT_EQ(some->first, top.size() + from);
          EXPECT_EQ(some->top.size(), some->logprobs.size());
          top.insert(top.end(), some->top.begin(), some->top.end());
        }
      });
      while (engine.has_work()) engine.step();
      EXPECT_EQ(generated, 2U);
      ASSERT_EQ(top.size(), fixture.prompt.size() - from);
      for (std::size_t i = 0; i < top.size(); ++i) {
        const float* const row = fixture.logits.view().row(i + from - 1);
        const std::vector<double> expected = reference::log_softmax({row, fixture.logits.view().columns()});
        std::vector<double> sorted = expected;
        std::ranges::sort(sorted, std::greater<>());
        ASSERT_EQ(top[i].size(), static_cast<std::size_t>(request.score_top));
        for (std::size_t k = 0; k < top[i].size(); ++k) {
          EXPECT_NEAR(top[i][k].logprob, sorted[k], kLogitTolerance) << "position " << i + from - 1;
          EXPECT_NEAR(top[i][k].logprob, expected[static_cast<std::size_t>(top[i][k].id)], kLogitTolerance);
        }
      }
    }
    EXPECT_GT(cached, 8U) << "the second prompt found no scores";
  });
}

TEST(EngineLogits, CanBeAskedForAgainAndAgainAndBetweenRequests) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  // The cache holds the sequence once, so each call must free its blocks.
  run_engine(comm, {.model = fixture.folder, .block_size = 4, .cache_tokens = 56}, [&](Engine& engine) {
    const auto once = logits_of(engine, fixture.prompt);
    EXPECT_EQ(run_alone(engine, greedy_request(fixture.prompt, 16)).tokens, fixture.greedy);
    EXPECT_EQ(logits_of(engine, fixture.prompt), once);
  });
}

TEST(EngineLogits, ReachTheLastPositionOfTheLongestSequence) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder, .max_length = 36}, [&](Engine& engine) {
    EXPECT_EQ(logits_of(engine, fixture.prompt).size(), 36U);
    std::vector<TokenId> longer = fixture.prompt;
    longer.push_back(3);
    EXPECT_THROW(logits_of(engine, longer), RequestError);
    EXPECT_THROW(logits_of(engine, {}), RequestError);
    EXPECT_THROW(logits_of(engine, {320}), RequestError);
    std::vector<TokenId> foreign = fixture.prompt;
    foreign.back() = 320;
    EXPECT_THROW(logits_of(engine, foreign), RequestError);
    EXPECT_EQ(logits_of(engine, {5}).size(), 1U);
  });
}

TEST(EngineLogits, WaitForRoomIfOtherRequestsRun) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder, .block_size = 4, .cache_tokens = 56}, [&](Engine& engine) {
    const auto once = logits_of(engine, fixture.prompt);
    const std::uint64_t id = engine.submit(greedy_request(fixture.prompt, 16));
    test::Continuations all;
    for (int i = 0; i < 3; ++i) {
      for (const TokenEvent& event : engine.step()) test::collect(event, all);
    }
    EXPECT_EQ(logits_of(engine, fixture.prompt), once);
    while (engine.has_work()) {
      for (const TokenEvent& event : engine.step()) test::collect(event, all);
    }
    EXPECT_EQ((all[{id, 0}].tokens), fixture.greedy) << "its tokens of the meantime are not lost";
  });
}

TEST(EngineLogits, PassOnTheReceiversException) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder, .prefill_chunk = 8}, [&](Engine& engine) {
    const auto give_up = [](std::size_t position, std::span<const float>) {
      if (position == 5) throw std::runtime_error("the disk is full");
    };
    EXPECT_THROW(engine.logits(fixture.prompt, give_up), std::runtime_error);
    EXPECT_FALSE(engine.has_work());
    EXPECT_EQ(run_alone(engine, greedy_request(fixture.prompt, 16)).tokens, fixture.greedy);
  });
}

TEST(EngineLogprobs, MatchTheFullDistributionForEveryKindOfSampling) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    for (const float temperature : {0.0F, 0.7F}) {
      for (const int top_k : {0, 5}) {
        Request request = greedy_request(fixture.prompt, 12);
        request.sampling.temperature = temperature;
        request.sampling.top_k = top_k;
        request.sampling.seed = 3;
        request.sampling.logprobs = 4;
        request.sampling.repetition_penalty = top_k == 5 ? 1.2F : 1.0F;
        const Continuation found = run_alone(engine, request);
        std::vector<TokenId> all = fixture.prompt;
        all.insert(all.end(), found.tokens.begin(), found.tokens.end());
        const auto rows = logits_of(engine, all);
        ASSERT_EQ(found.logprobs.size(), 12U);
        for (std::size_t i = 0; i < 12; ++i) {
          const std::vector<double> expected = reference::log_softmax(rows[fixture.prompt.size() + i - 1]);
          // Tolerance of the logits, plus the sum's.
          EXPECT_NEAR(found.logprobs[i], expected[static_cast<std::size_t>(found.tokens[i])],
                      2 * kLogitTolerance);
          ASSERT_EQ(found.top_logprobs[i].size(), 4U);
          std::vector<double> sorted = expected;
          std::sort(sorted.rbegin(), sorted.rend());
          for (std::size_t rank = 0; rank < 4; ++rank) {
            const TokenLogprob& top = found.top_logprobs[i][rank];
            EXPECT_NEAR(top.logprob, sorted[rank], 2 * kLogitTolerance);
            EXPECT_NEAR(top.logprob, expected[static_cast<std::size_t>(top.id)], 2 * kLogitTolerance);
          }
        }
      }
    }
  });
}

TEST(EngineLogprobs, MatchTheLogitsOfASequence) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-12q3kv");
  for (const std::size_t chunk : {3U, 512U}) {
    run_engine(comm, {.model = fixture.folder, .prefill_chunk = chunk}, [&](Engine& engine) {
      const auto rows = logits_of(engine, fixture.prompt);
      for (const std::size_t first : {std::size_t{1}, std::size_t{9}, fixture.prompt.size() - 1}) {
        const std::vector<double> found = engine.logprobs(fixture.prompt, first);
        ASSERT_EQ(found.size(), fixture.prompt.size() - first);
        for (std::size_t i = 0; i < found.size(); ++i) {
          const auto token = static_cast<std::size_t>(fixture.prompt[first + i]);
          EXPECT_NEAR(found[i], reference::log_softmax(rows[first + i - 1])[token],
                      1e-5);  // a float32 logarithm
        }
      }
    });
  }
}

TEST(EngineLogprobs, AreRejectedForTheFirstToken) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    EXPECT_THROW(engine.logprobs(fixture.prompt, 0), RequestError);
    EXPECT_THROW(engine.logprobs(fixture.prompt, fixture.prompt.size()), RequestError);
    EXPECT_THROW(engine.logprobs({}, 1), RequestError);
    std::vector<TokenId> foreign = fixture.prompt;
    foreign.back() = 320;
    EXPECT_THROW(engine.logprobs(foreign), RequestError);
    EXPECT_EQ(engine.logprobs(fixture.prompt).size(), 35U);
  });
}

TEST(EngineLogprobs, SumToOneOverTheVocabulary) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    Request request = greedy_request(fixture.prompt, 3);
    request.sampling.logprobs = 100000;  // more than there are
    const Continuation found = run_alone(engine, request);
    EXPECT_EQ(found.tokens, std::vector<TokenId>(fixture.greedy.begin(), fixture.greedy.begin() + 3));
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_EQ(found.top_logprobs[i].size(), 320U);
      EXPECT_EQ(found.top_logprobs[i].front().id, found.tokens[i]);
      double sum = 0.0;
      for (const TokenLogprob& entry : found.top_logprobs[i])
        sum += std::exp(static_cast<double>(entry.logprob));
      EXPECT_NEAR(sum, 1.0, 1e-5);  // 320 float32 logarithms
    }
  });
}

TEST(EngineLogprobs, AreOmittedByDefault) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    EXPECT_TRUE(run_alone(engine, greedy_request(fixture.prompt, 3)).logprobs.empty());
    Request request = greedy_request(fixture.prompt, 3);
    request.sampling.logprobs = 0;
    const Continuation found = run_alone(engine, request);
    EXPECT_EQ(found.logprobs.size(), 3U);
    EXPECT_TRUE(found.top_logprobs[0].empty());
  });
}

}  // namespace
}  // namespace tp
