// Engines that approximate attention by random features.
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/error.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::all_logits;
using test::Continuation;
using test::greedy_request;
using test::run_alone;
using test::run_engine;

EngineOptions favor_options(const Fixture& fixture, std::size_t features) {
  return {.model = fixture.folder, .weights = WeightType::f32, .same_bits = true, .favor_features = features};
}

TEST(EngineFavor, ComesCloserToExactAttentionWithMoreFeatures) {
  Communicator& comm = test::world();
  const reference::StoredFixture fixture = reference::stored_fixture("llama-gqa");
  double before = INFINITY;
  for (const std::size_t features : {16U, 256U, 4096U}) {
    run_engine(comm, favor_options(fixture, features), [&](Engine& engine) {
      EXPECT_EQ(engine.info().options.favor_features, features);
      const std::vector<float> logits = all_logits(engine, fixture.prompt);
      double squares = 0.0;
      for (std::size_t i = 0; i < logits.size(); ++i)
        squares += std::pow(static_cast<double>(logits[i]) - fixture.logits.values[i], 2);
      EXPECT_GT(squares, 0.0);
      // The fixture's random weights give long queries and keys, whose error falls slowly.
      EXPECT_LT(squares, 0.9 * before) << features;
      before = squares;
    });
  }
}

// Sums are in slots of the state cache. They have the same bits in any chunks, in batches, and after a common
// prefix.
void expect_the_same_tokens_in_any_company(const Fixture& fixture) {
  Communicator& comm = test::world();
  std::vector<TokenId> expected;
  for (const std::size_t chunk : {512U, 5U}) {
    EngineOptions options = favor_options(fixture, 64);
    options.prefill_chunk = chunk;
    options.block_size = 8;
    run_engine(comm, options, [&](Engine& engine) {
      const std::vector<TokenId> alone = run_alone(engine, greedy_request(fixture.prompt, 12)).tokens;
      EXPECT_EQ(alone.size(), 12U);
      if (expected.empty()) expected = alone;
      EXPECT_EQ(alone, expected);
      std::vector<std::uint64_t> ids;
      for (int i = 0; i < 5; ++i) ids.push_back(engine.submit(greedy_request(fixture.prompt, 12)));
      engine.submit(greedy_request({1, 2, 3}, 30));
      test::Continuations all = test::run_all(engine);
      for (const std::uint64_t id : ids) {
        const Continuation& one = all[{id, 0}];
        EXPECT_EQ(one.tokens, expected);
      }
    });
  }
}

TEST(EngineFavor, GivesEveryRequestTheSameTokensInAnyCompany) {
  expect_the_same_tokens_in_any_company(reference::fixture("llama-gqa"));
}

// A layer has the sums of its attention and the state of its recurrence.
TEST(EngineFavor, KeepsSumsApartFromTheStateOfAParallelRecurrence) {
  expect_the_same_tokens_in_any_company(reference::fixture("falconh1"));
}

TEST(EngineFavor, IsRejectedIfAttentionHasMoreThanProducts) {
  const std::vector<std::pair<std::filesystem::path, std::string>> cases = {
      {reference::seeded_folder("logits", "gemma2-bf16"), "soft caps of scores"},
      {reference::seeded_folder("logits", "mimov2flash"), "values of another size than keys"},
      {reference::seeded_folder("seq2seq", "bart"), "an encoder-decoder"},
      {reference::seeded_folder("diffusion", "sdar"), "a diffusion language model"}};
  for (const auto& [folder, found] : cases) {
    const EngineOptions options{.model = folder, .favor_features = 64};
    EXPECT_CONTAINS(test::error_of<Error>([&] { run_engine(test::world(), options, [](Engine&) {}); }),
                    "found " + found)
        << folder;
  }
}

}  // namespace
}  // namespace tp
