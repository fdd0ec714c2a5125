// Every diffusion language model's fixture: logits, and the token ids at every call of the model.
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/reference/diffusion_fixture.h"
#include "tests/runtime/modes/diffusion_run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::DiffusionCase;
using reference::DiffusionFixture;
using test::Received;
using test::request_of;
using test::run_engine;
using test::run_one;
using test::teller;
using test::texts_of;

// Source: the fixtures' README.
constexpr double kTolerance = 1e-3;

// Returns the inputs of the families' code as whole texts. Repeated inputs are omitted, because the engine
// skips passes that change nothing.
std::vector<std::vector<TokenId>> calls_of_whole_texts(const DiffusionCase& one) {
  std::vector<std::vector<TokenId>> calls = one.calls;
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  calls.push_back(one.result);
  return calls;
}

// SDAR's code keeps finished blocks in a cache. It computes each block once more after its last mask.
std::vector<std::vector<TokenId>> calls_of_blocks(const DiffusionFixture& fixture, const DiffusionCase& one) {
  const auto length = static_cast<std::size_t>(one.settings.block_length);
  std::vector<TokenId> text = fixture.prompt;
  text.resize(one.result.size(), fixture.mask);
  std::size_t begin = fixture.prompt.size() / length * length;
  std::vector<std::vector<TokenId>> calls;
  for (std::size_t i = 1; i < one.calls.size(); ++i) {  // the first call is the prompt's
    std::ranges::copy(one.calls[i], text.begin() + static_cast<std::ptrdiff_t>(begin));
    const bool finished = std::ranges::find(one.calls[i], fixture.mask) == one.calls[i].end();
    if (finished) begin += length;
    const bool masks_follow = begin + length <= text.size();
    if (!finished || !masks_follow) calls.push_back(text);
  }
  return calls;
}

// LLaDA2's code passes each block to the model as it is before a pass. A new block has only masks.
std::vector<std::vector<TokenId>> calls_of_masked_blocks(const DiffusionFixture& fixture,
                                                         const DiffusionCase& one) {
  const auto length = static_cast<std::size_t>(one.settings.block_length);
  std::vector<TokenId> text = fixture.prompt;
  text.resize(one.result.size(), fixture.mask);
  std::size_t begin = fixture.prompt.size() / length * length;
  std::vector<std::vector<TokenId>> calls;
  for (const std::vector<TokenId>& block : one.calls) {
    const bool begins = std::ranges::all_of(block, [&](TokenId id) { return id == fixture.mask; });
    if (begins && !calls.empty()) {
      std::copy_n(one.result.begin() + static_cast<std::ptrdiff_t>(begin), length,
                  text.begin() + static_cast<std::ptrdiff_t>(begin));
      begin += length;
    }
    std::ranges::copy(block, text.begin() + static_cast<std::ptrdiff_t>(begin));
    calls.push_back(text);
  }
  calls.push_back(one.result);
  return calls;
}

class DiffusionFamily : public testing::TestWithParam<DiffusionFixture> {
 protected:
  void run(const std::function<void(Engine&)>& body, EngineOptions options = {}) {
    if (comm_.size() > 4) GTEST_SKIP() << comm_.size() << " ranks, 4 heads";
    options.model = fixture_.folder;
    run_engine(comm_, options, body);
  }
  void expect_logits(Engine& engine) const {
    std::vector<float> logits;
    engine.logits(fixture_.masked, [&](std::size_t position, std::span<const float> row) {
      EXPECT_EQ(position * row.size(), logits.size());
      logits.insert(logits.end(), row.begin(), row.end());
    });
    EXPECT_LE(fixture_.logits.difference(logits), kTolerance);
  }
  // Whether tokens see whole blocks, whose length the model defines.
  bool has_blocks() const { return fixture_.name == "sdar" || fixture_.name == "llada2"; }
  std::vector<std::vector<TokenId>> expected_calls(const DiffusionCase& one) const {
    if (fixture_.name == "sdar") return calls_of_blocks(fixture_, one);
    return has_blocks() ? calls_of_masked_blocks(fixture_, one) : calls_of_whole_texts(one);
  }
  std::vector<TokenId> begun(const DiffusionCase& one) const {
    std::vector<TokenId> text = fixture_.prompt;
    text.resize(one.result.size(), fixture_.mask);
    return text;
  }

  Communicator& comm_ = test::world();
  const DiffusionFixture fixture_ = GetParam();
};

TEST_P(DiffusionFamily, GivesTheLogitsOfTheOriginalModellingCode) {
  run([&](Engine& engine) {
    EXPECT_EQ(engine.info().kind, ModelKind::diffusion);
    expect_logits(engine);
  });
}

TEST_P(DiffusionFamily, GivesItsLogitsInChunksOfWholeBlocks) {
  run([&](Engine& engine) { expect_logits(engine); },
      {.prefill_chunk = fixture_.name == "llada2" ? 10U : 6U, .max_sequences = 3, .block_size = 4});
}

TEST_P(DiffusionFamily, HasTheIdsOfTheFamilysOwnCodeAtEveryCallOfTheModel) {
  run([&](Engine& engine) {
    for (const DiffusionCase& one : fixture_.cases) {
      const Received received = run_one(engine, request_of(fixture_, one));
      EXPECT_EQ(texts_of(received, begun(one)), expected_calls(one)) << one.algorithm;
      EXPECT_EQ(received.reason, FinishReason::length);
      const auto first = one.result.begin() + static_cast<std::ptrdiff_t>(fixture_.prompt.size());
      EXPECT_EQ(received.tokens, std::vector<TokenId>(first, first + one.max_tokens)) << one.algorithm;
    }
  });
}

TEST_P(DiffusionFamily, GivesTheSameTextsInABatch) {
  run([&](Engine& engine) {
    std::vector<std::map<int, Received>> received(fixture_.cases.size());
    for (std::size_t i = 0; i < received.size(); ++i)
      engine.submit(request_of(fixture_, fixture_.cases[i]), teller(received[i]));
    while (engine.has_work()) engine.step();
    for (std::size_t i = 0; i < received.size(); ++i) {
      const DiffusionCase& one = fixture_.cases[i];
      EXPECT_EQ(texts_of(received[i][0], begun(one)).back(), one.result) << one.algorithm;
    }
    EXPECT_EQ(engine.status().finished.length, received.size());
    EXPECT_EQ(engine.status().queued_requests, 0U);
  });
}

TEST_P(DiffusionFamily, DrawsTheSameTextsFromASeedInAnyBatch) {
  run([&](Engine& engine) {
    Request request = request_of(fixture_, fixture_.cases.front());
    request.sampling = {.temperature = 0.9F, .top_k = 40, .top_p = 0.95F, .seed = 7};
    request.n = 3;
    std::map<int, Received> together;
    engine.run(request, teller(together));
    EXPECT_NE(together[0].tokens, together[1].tokens);
    EXPECT_NE(together[1].tokens, together[2].tokens);
    request.n = 1;
    EXPECT_EQ(run_one(engine, request).tokens, together[0].tokens);
    request.sampling.seed = 8;
    EXPECT_NE(run_one(engine, request).tokens, together[0].tokens);
  });
}

TEST_P(DiffusionFamily, EndsAtATokenThatEndsTexts) {
  run([&](Engine& engine) {
    const DiffusionCase& one = fixture_.cases.front();
    Request request = request_of(fixture_, one);
    request.ignore_eos = false;
    const TokenId end = one.result[fixture_.prompt.size() + 5];
    request.stop_token_ids = {end};
    const Received received = run_one(engine, request);
    const auto first = one.result.begin() + static_cast<std::ptrdiff_t>(fixture_.prompt.size());
    const auto last = std::find(first, one.result.end(), end) + 1;
    EXPECT_EQ(received.tokens, std::vector<TokenId>(first, last));
    EXPECT_EQ(received.reason, FinishReason::stop);
  });
}

TEST_P(DiffusionFamily, CanBeCancelledBetweenPasses) {
  run([&](Engine& engine) {
    Request request = request_of(fixture_, fixture_.cases.front());
    bool cancelled = false;
    const RequestId id = engine.submit(request, [&](const Event& event) {
      EXPECT_FALSE(std::holds_alternative<RequestFinished>(event));
      cancelled = cancelled || std::holds_alternative<RequestCancelled>(event);
    });
    engine.step();
    engine.step();
    engine.cancel(id);
    while (engine.has_work()) engine.step();
    EXPECT_TRUE(cancelled);
    EXPECT_EQ(engine.status().finished.cancelled, 1U);
    EXPECT_EQ(run_one(engine, request).reason, FinishReason::length);
  });
}

TEST_P(DiffusionFamily, RejectsUnsupportedRequests) {
  run([&](Engine& engine) {
    const auto refusal = [&](const auto& change) -> std::string {
      Request request = request_of(fixture_, fixture_.cases.front());
      request.unmasking.emplace();
      change(request);
      return test::error_of<RequestError>([&] { engine.submit(request); });
    };
    const auto expect = [&](const std::string& found, const std::string& part) {
      EXPECT_CONTAINS(found, part);
    };
    expect(refusal([](Request& request) { request.unmasking->steps = -1; }), "`steps` is -1");
    expect(refusal([](Request& request) { request.unmasking->steps = 1 << 20; }), "`steps`");
    expect(refusal([](Request& request) { request.unmasking->threshold = NAN; }), "`threshold` is nan");
    expect(refusal([](Request& request) { request.unmasking->block_length = -4; }), "`block_length` is -4");
    expect(refusal([](Request& request) {
             request.max_tokens = 16;
             request.unmasking->block_length = 8;
             request.unmasking->steps = 3;
           }),
           "`steps` must be a multiple of the 2 blocks");
    expect(refusal([](Request& request) { request.sampling.repetition_penalty = 1.1F; }),
           "cannot unmask tokens with `repetition_penalty`");
    expect(refusal([](Request& request) { request.sampling.logprobs = 2; }), "`logprobs`");
    const std::size_t longest = engine.info().options.max_length;
    expect(refusal([&](Request& request) { request.prompt.assign(longest, 3); }), "shorten the prompt");
    expect(refusal([](Request& request) { request.prompt = {256}; }), "token id 256");
    if (has_blocks()) {
      expect(refusal([](Request& request) { request.unmasking->block_length = 1024; }),
             "`block_length` is 1024, but a step computes at most 512 tokens");
    } else {
      expect(refusal([](Request& request) { request.unmasking->block_length = 5; }),
             "`block_length` must divide `max_tokens` evenly, found 5 and 16");
    }
  });
}

// Max_tokens exceeds the context: the text fills the context and has no tokens after it.
TEST_P(DiffusionFamily, FillsTheContextAndNoMore) {
  run([&](Engine& engine) {
    Request request = request_of(fixture_, fixture_.cases.front());
    request.prompt.assign(fixture_.prompt.size(), 5);
    request.max_tokens = 1000;
    request.unmasking = Unmasking{.steps = 0};
    const Received received = run_one(engine, request);
    EXPECT_EQ(received.tokens.size(), engine.info().options.max_length - fixture_.prompt.size());
    EXPECT_EQ(std::ranges::find(received.tokens, fixture_.mask), received.tokens.end());
  });
}

class BlockDiffusion : public testing::Test {
 protected:
  Request request(std::uint64_t tokens) const {
    Request request = test::greedy_request(fixture_.prompt, static_cast<int>(tokens));
    request.sampling = {.temperature = 0.7F, .seed = 3};
    return request;
  }
  void run(const std::function<void(Engine&)>& body, EngineOptions options = {}) {
    options.model = fixture_.folder;
    run_engine(comm_, options, body);
  }

  Communicator& comm_ = test::world();
  const DiffusionFixture fixture_ = reference::diffusion_fixture("sdar");
};

TEST_F(BlockDiffusion, FindsFinishedBlocksInTheCacheAndGivesTheSameTextWithoutIt) {
  std::vector<TokenId> with;
  std::vector<TokenId> without;
  run(
      [&](Engine& engine) {
        with = run_one(engine, request(100)).tokens;
        EXPECT_GT(engine.status().prefix_hits, 3000U);  // 100 passes over 16 to 112 tokens
        Request alone = request(100);
        alone.cache_prompt = false;
        const auto hits = engine.status().prefix_hits;
        without = run_one(engine, alone).tokens;
        EXPECT_EQ(engine.status().prefix_hits, hits);
      },
      {.same_bits = true, .block_size = 8});
  EXPECT_EQ(with.size(), comm_.is_root() ? 100U : 0U);
  EXPECT_EQ(with, without);
}

// With a different block length, the same tokens have different keys and values.
TEST_F(BlockDiffusion, DoesNotFindBlocksOfAnotherLength) {
  run(
      [&](Engine& engine) {
        Request alone = request(40);
        alone.prompt.insert(alone.prompt.end(), fixture_.masked.begin(), fixture_.masked.end());
        alone.cache_prompt = false;
        Request long_blocks = alone;
        long_blocks.cache_prompt = true;
        long_blocks.unmasking = Unmasking{.block_length = 8};
        run_one(engine, long_blocks);
        Request after = alone;
        after.cache_prompt = true;
        EXPECT_EQ(run_one(engine, after).tokens, run_one(engine, alone).tokens);
      },
      {.same_bits = true, .block_size = 8});
}

TEST_F(BlockDiffusion, GivesTheSameTextFromAPromptInChunksAndACrowdedCache) {
  std::vector<TokenId> whole;
  run([&](Engine& engine) { whole = run_one(engine, request(40)).tokens; }, {.same_bits = true});
  run(
      [&](Engine& engine) {
        std::vector<std::map<int, Received>> received(5);
        for (std::map<int, Received>& one : received) engine.submit(request(40), teller(one));
        while (engine.has_work()) engine.step();
        for (std::map<int, Received>& one : received) EXPECT_EQ(one[0].tokens, whole);
      },
      {.same_bits = true, .prefill_chunk = 5, .max_sequences = 3, .block_size = 4, .cache_tokens = 80});
}

TEST_F(BlockDiffusion, WorksInAPipeline) {
  if (comm_.size() % 2 != 0) GTEST_SKIP() << "an odd number of ranks";
  run(
      [&](Engine& engine) {
        const DiffusionCase& one = fixture_.cases.front();
        EXPECT_EQ(texts_of(run_one(engine, request_of(fixture_, one)),
                           [&] {
                             std::vector<TokenId> text = fixture_.prompt;
                             text.resize(one.result.size(), fixture_.mask);
                             return text;
                           }())
                      .back(),
                  one.result);
      },
      {.pipeline = 2});
}

INSTANTIATE_TEST_SUITE_P(All, DiffusionFamily, testing::ValuesIn(reference::diffusion_fixtures()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tp
