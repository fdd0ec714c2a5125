// Generated texts don't depend on the number of ranks or on other requests.
#include "model/config/architectures.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/mpi.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::Continuation;
using test::Continuations;
using test::greedy_request;
using test::run_all;
using test::run_alone;
using test::run_engine;

std::vector<TokenId> first(const std::vector<TokenId>& tokens, std::size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(Engine, GeneratesTheFixturesGreedyTokens) {
  Communicator& comm = test::world();
  for (const Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    EngineOptions options{.model = fixture.folder};
    // Products in bf16 change its logits by more than 0.03, the margin of its closest choice.
    if (fixture.name == "qwen35-bare-bf16") options.weights = WeightType::f32;
    const int status = run_engine(comm, options, [&](Engine& engine) {
      const Continuation found =
          run_alone(engine, greedy_request(fixture.prompt, static_cast<int>(fixture.greedy.size())));
      EXPECT_EQ(found.tokens, fixture.greedy) << fixture.name;
      EXPECT_EQ(found.reason, FinishReason::length);
      EXPECT_EQ(found.error, "");
      // Most fixtures have no tokenizer.
      const bool has_text = std::filesystem::exists(fixture.folder / "tokenizer.json");
      EXPECT_EQ(found.text.empty(), !has_text);
    });
    EXPECT_EQ(status, 0);
  }
}

// Prompts with different lengths and sampling, some with the same beginning.
std::vector<Request> mixed_requests(const Fixture& fixture) {
  std::vector<Request> requests;
  for (const std::size_t length : {1U, 5U, 17U, 18U, 30U, 36U, 36U}) {
    Request request = greedy_request(first(fixture.prompt, length), 4 + static_cast<int>(length) % 9);
    if (length % 2 == 0) {
      request.sampling.temperature = 0.9F;
      request.sampling.seed = 1000 + requests.size();
      request.sampling.top_p = length == 18 ? 0.8F : 1.0F;
      request.sampling.top_k = length == 36 ? 20 : 0;
      request.sampling.repetition_penalty = length == 30 ? 1.3F : 1.0F;
    }
    requests.push_back(request);
  }
  return requests;
}

TEST(Engine, GivesEveryRequestTheSameTokensInAnyBatchAndAnyCache) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  const std::vector<Request> requests = mixed_requests(fixture);
  std::vector<std::vector<TokenId>> expected;
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    for (const Request& request : requests) expected.push_back(run_alone(engine, request).tokens);
  });
  struct Setting {
    std::size_t chunk, sequences, block_size, cache_tokens;
  };
  // The longest request needs 40 tokens. In caches smaller than all seven need, sequences are preempted.
  for (const Setting& setting :
       {Setting{512, 16, 32, 0}, Setting{1, 16, 8, 0}, Setting{3, 2, 4, 0}, Setting{7, 16, 1, 60},
        Setting{16, 5, 4, 48}, Setting{64, 16, 16, 48}, Setting{5, 1, 8, 40}}) {
    const EngineOptions options{.model = fixture.folder,
                                .prefill_chunk = setting.chunk,
                                .max_sequences = setting.sequences,
                                .block_size = setting.block_size,
                                .cache_tokens = setting.cache_tokens};
    run_engine(comm, options, [&](Engine& engine) {
      std::vector<std::uint64_t> ids;
      for (const Request& request : requests) ids.push_back(engine.submit(request));
      Continuations found = run_all(engine);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ((found[{ids[i], 0}].tokens), expected[i])
            << "request " << i << ", chunk " << setting.chunk << ", " << setting.sequences
            << " sequences, cache of " << setting.cache_tokens << " in blocks of " << setting.block_size;
      }
    });
  }
}

TEST(Engine, TakesRequestsWhileOthersRun) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder, .prefill_chunk = 8}, [&](Engine& engine) {
    const std::vector<TokenId> alone =
        run_alone(engine, greedy_request(first(fixture.prompt, 20), 12)).tokens;
    Continuations all;
    const std::uint64_t early = engine.submit(greedy_request(fixture.prompt, 16));
    for (int i = 0; i < 7; ++i) {
      for (const TokenEvent& event : engine.step()) test::collect(event, all);
    }
    const std::uint64_t late = engine.submit(greedy_request(first(fixture.prompt, 20), 12));
    while (engine.has_work()) {
      for (const TokenEvent& event : engine.step()) test::collect(event, all);
    }
    EXPECT_EQ((all[{early, 0}].tokens), fixture.greedy);
    EXPECT_EQ((all[{late, 0}].tokens), alone);
  });
}

// Penalties, draws and later log-probabilities depend on earlier tokens.
TEST(Engine, ContinuesARequestWhereAnEarlierRunEnded) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  Request request = greedy_request(fixture.prompt, 8);
  request.sampling = {.temperature = 1.2F,
                      .repetition_penalty = 1.2F,
                      .presence_penalty = 0.5F,
                      .frequency_penalty = 0.7F,
                      .seed = 7,
                      .logprobs = 2};
  request.n = 2;
  const EngineOptions options{.model = fixture.folder, .same_bits = true, .prefill_chunk = 5};
  run_engine(comm, options, [&](Engine& engine) {
    const std::uint64_t whole = engine.submit(request);
    Continuations expected = run_all(engine);
    for (std::size_t begun = 1; begun <= 8; ++begun) {
      Request rest = request;
      rest.generated = {first(expected[{whole, 0}].tokens, begun),
                        first(expected[{whole, 1}].tokens, 8 - begun)};
      const std::uint64_t id = engine.submit(rest);
      Continuations found = run_all(engine);
      for (const int sample : {0, 1}) {
        EXPECT_EQ((found[{id, sample}].tokens), (expected[{whole, sample}].tokens)) << begun << " " << sample;
        const std::size_t old = sample == 0 ? begun : 8 - begun;
        for (std::size_t i = old; i < 8; ++i)
          EXPECT_EQ((found[{id, sample}].logprobs.at(i - old)), (expected[{whole, sample}].logprobs.at(i)))
              << begun << " " << i;
      }
    }
  });
}

// All ranks' text is compared with one rank's, which every process can compute.
TEST(Engine, DrawsTheSameTokensAtEveryRankCount) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-12q3kv");
  Request request = greedy_request(fixture.prompt, 30);
  request.sampling.temperature = 1.1F;
  request.sampling.seed = 42;
  request.n = 3;
  const auto tokens_of = [&](Engine& engine) {
    const std::uint64_t id = engine.submit(request);
    Continuations all = run_all(engine);
    std::vector<std::vector<TokenId>> tokens;
    for (int sample = 0; sample < 3; ++sample) tokens.push_back(all[{id, sample}].tokens);
    return tokens;
  };
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    const std::vector<std::vector<TokenId>> found = tokens_of(engine);
    EXPECT_EQ(found[0].size(), 30U);
    EXPECT_NE(found[0], found[1]);
    EXPECT_NE(found[1], found[2]);
    EXPECT_EQ(tokens_of(engine), found) << "the same request a second time";
    Communicator self(MPI_COMM_SELF);
    Engine alone(self, {.model = fixture.folder, .threads = 1});
    EXPECT_EQ(tokens_of(alone), found) << "on one rank";
    request.sampling.seed = 43;
    EXPECT_NE(tokens_of(engine)[0], found[0]);
  });
}

TEST(Engine, GivesRequestsWithoutASeedDifferentTexts) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    Request request = greedy_request(fixture.prompt, 30);
    request.sampling.temperature = 1.0F;
    // 30 draws from a flat distribution over 320 tokens do not agree by chance.
    EXPECT_NE(run_alone(engine, request).tokens, run_alone(engine, request).tokens);
  });
}

// Returns the tokens computed since the statistics were reset.
std::size_t computed_tokens(Engine& engine) {
  const RankReport report = engine.reports().front();
  const ModelConfig& config = engine.info().config;
  return report.all_reduce_bytes / (2 * config.num_hidden_layers + 1) / config.hidden_size / sizeof(float);
}

TEST(Engine, ComputesThePromptOfSeveralSamplesOnce) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  ASSERT_EQ(fixture.prompt.size(), 36U);
  run_engine(comm, {.model = fixture.folder, .block_size = 8}, [&](Engine& engine) {
    engine.reset_statistics();
    Request request = greedy_request(fixture.prompt, 6);
    request.sampling.temperature = 1.0F;
    request.sampling.seed = 7;
    request.n = 4;
    const std::uint64_t id = engine.submit(request);
    Continuations together = run_all(engine);
    // The first sample computes 36 prompt tokens. The other three find four blocks of eight. Each sample then
    // computes its generated tokens, except the last one.
    EXPECT_EQ(computed_tokens(engine), 36U + 3 * 4 + 4 * 5);
    // Fewer samples of the same request, and the first sample by itself, draw the same tokens.
    request.n = 1;
    EXPECT_EQ(run_alone(engine, request).tokens, (together[{id, 0}].tokens));
    request.n = 2;
    const std::uint64_t pair = engine.submit(request);
    Continuations two = run_all(engine);
    EXPECT_EQ((two[{pair, 1}].tokens), (together[{id, 1}].tokens));
    for (int sample = 1; sample < 4; ++sample)
      EXPECT_NE((together[{id, 0}].tokens), (together[{id, sample}].tokens));
  });
}

// In a conversation, every prompt is the previous one with its continuation and some more tokens.
TEST(Engine, ComputesOnlyTheUncachedTokensOfAPrompt) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  constexpr std::size_t block = 8;
  run_engine(comm, {.model = fixture.folder, .block_size = block}, [&](Engine& engine) {
    std::vector<TokenId> prompt = fixture.prompt;
    std::size_t computed = 0;  // tokens computed in the previous turn: all except its last token
    for (int turn = 0; turn < 3; ++turn) {
      const Continuation found = run_alone(engine, greedy_request(prompt, 16));
      EXPECT_EQ(found.cached_tokens, computed / block * block) << "whole blocks";
      prompt.insert(prompt.end(), found.tokens.begin(), found.tokens.end());
      computed = prompt.size() - 1;
      prompt.insert(prompt.end(), {1, 2, 3});
    }
  });
}

TEST(Engine, GivesSamplesTheSameTokensInACacheThatHoldsFewOfThem) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  Request request = greedy_request(first(fixture.prompt, 20), 12);
  request.sampling.temperature = 1.0F;
  request.sampling.seed = 9;
  request.n = 5;
  std::vector<std::vector<TokenId>> expected;
  for (const std::size_t cache_tokens : {0U, 40U, 32U}) {
    run_engine(
        comm, {.model = fixture.folder, .block_size = 4, .cache_tokens = cache_tokens}, [&](Engine& engine) {
          const std::uint64_t id = engine.submit(request);
          Continuations all = run_all(engine);
          for (int sample = 0; sample < 5; ++sample) {
            const auto& tokens = all[{id, sample}].tokens;
            if (cache_tokens == 0) expected.push_back(tokens);
            EXPECT_EQ(tokens, expected[static_cast<std::size_t>(sample)]) << sample << " in " << cache_tokens;
          }
        });
  }
}

TEST(Engine, RunsTheAllReducesOfTheDesignInEveryStepOnEveryRank) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder, .prefill_chunk = 16}, [&](Engine& engine) {
    engine.reset_statistics();
    run_alone(engine, greedy_request(fixture.prompt, 10));
    const std::vector<RankReport> reports = engine.reports();
    ASSERT_EQ(reports.size(), comm.size());
    for (const RankReport& report : reports) {
      EXPECT_EQ(report.steps, 3U + 9);  // 36 tokens in chunks of 16 give the first token
      EXPECT_EQ(report.all_reduces, report.steps * (2 * 2 + 1));
      EXPECT_GE(report.all_reduce_seconds, report.time.waiting);
      EXPECT_GE(report.time.waiting, 0.0);
      EXPECT_GT(report.weight_bytes, 0U);
      EXPECT_GT(report.peak_resident_bytes, 0U);
      EXPECT_STRNE(report.host, "");
    }
  });
}

TEST(Engine, ReportsTheNodesOfEachRanksMemory) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    run_alone(engine, greedy_request(fixture.prompt, 10));
    std::uint64_t cache_pages = 0;
    bool are_known = true;
    for (const RankReport& report : engine.reports()) {
      const RankNuma& numa = report.numa;
      EXPECT_EQ(numa.core_nodes != 0, numa.nodes != 0);
      are_known = are_known && numa.pages_known != 0;
      if (numa.pages_known == 0) continue;
      // Vectors do not have separate pages.
      EXPECT_GE(numa.weights.total(), report.weight_bytes / 4096 / 2);
      cache_pages += numa.cache.total();
      // With two KV heads, more ranks share one copy, and other ranks may own the few used blocks.
      EXPECT_TRUE(numa.cache.total() != 0 || comm.size() > 2);
      EXPECT_EQ(numa.window.total() != 0, comm.size() > 1);
    }
    EXPECT_EQ(cache_pages != 0, are_known);
  });
}

TEST(Engine, ReadsTheFileOnceOverAllRanks) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    std::size_t read = 0;
    for (const RankReport& report : engine.reports()) read += report.bytes_used;
    // With 4 KV heads, 3 ranks hold two of them twice: 12 columns each of k and v, in two layers.
    const std::size_t replicated = comm.size() == 3 ? 2 * 2 * 2 * 12 * 96 * sizeof(float) : 0;
    EXPECT_LE(static_cast<double>(read - replicated), 1.05 * static_cast<double>(engine.info().stored_bytes));
    EXPECT_GE(read, engine.info().stored_bytes);
    EXPECT_EQ(engine.info().parameters, 264672U);  // as in the fixture's meta.json
  });
}

}  // namespace
}  // namespace tp
