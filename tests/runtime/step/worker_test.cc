// Validation of forward passes, and when the worker waits for a mask.
#include "runtime/step/worker.h"

#include "model/config/architectures.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/log_softmax.h"
#include "tp/mpi.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using reference::StoredFixture;

// Equals the tolerance in decoder_fixtures_test.
constexpr double kLogitTolerance = 1e-4;

// A worker on the ranks of `comm` with a small cache.
class TestedWorker {
 public:
  TestedWorker(Communicator& comm, const Fixture& fixture)
      : plan_(make_plan({.model = fixture.folder, .block_size = 8, .cache_tokens = 64, .threads = 1},
                        comm.size())),
        worker_(comm, plan_, {}, {}) {}

  // Computes the prompt in one chunk.
  std::vector<Result> run(const std::vector<TokenId>& prompt, std::vector<Output> outputs,
                          const SamplingParams& sampling = {.temperature = 0.0F},
                          const MaskSource& masks = {}) {
    Forward forward;
    forward.tokens = prompt;
    SequenceChunk chunk{.sequence = 1, .tokens = static_cast<std::uint32_t>(prompt.size())};
    for (std::size_t block = 0; block * 8 < prompt.size(); ++block)
      chunk.new_blocks.push_back(static_cast<BlockId>(block));
    chunk.start = SequenceStart{.sampling = sampling, .seed = 5, .prompt_tokens = prompt.size()};
    forward.chunks = {chunk};
    forward.outputs = std::move(outputs);
    forward.masks = masks;
    return worker_.run(forward).results;
  }

 private:
  EnginePlan plan_;
  Worker worker_;
};

std::span<const float> row_of(const StoredFixture& fixture, std::size_t row) {
  return {fixture.logits.view().row(row), fixture.logits.view().columns()};
}

TEST(Worker, GivesAllOutputsOfOnePassTogether) {
  Communicator& comm = test::world();
  const StoredFixture fixture = reference::stored_fixture("llama-gqa");
  TestedWorker worker(comm, fixture);
  const std::vector<Result> results = worker.run(fixture.prompt, {{1, {3, 2}, want::Candidates{5, true}},
                                                                  {1, {7, 3}, want::Score{{1, 2, 319}}},
                                                                  {1, {34, 2}, want::Logits{}},
                                                                  {1, {20, 3}, want::Choose{}}});
  if (!comm.is_root()) return;
  ASSERT_EQ(results.size(), 4U);
  const auto& candidates = std::get<std::vector<RowCandidates>>(results[0]);
  ASSERT_EQ(candidates.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::vector<double> expected = reference::log_softmax(row_of(fixture, 3 + i));
    std::vector<double> sorted = expected;
    std::ranges::sort(sorted, std::greater());
    ASSERT_EQ(candidates[i].best.size(), 5U);
    for (std::size_t k = 0; k < 5; ++k) {
      EXPECT_NEAR(candidates[i].best[k].logprob, sorted[k], 2 * kLogitTolerance);
      EXPECT_NEAR(candidates[i].best[k].logprob, expected[static_cast<std::size_t>(candidates[i].best[k].id)],
                  2 * kLogitTolerance);
    }
    double entropy = 0.0;
    for (const double logprob : expected) entropy -= std::exp(logprob) * logprob;
    EXPECT_NEAR(candidates[i].entropy.value(), entropy, 10 * kLogitTolerance);
  }
  const auto& scores = std::get<std::vector<double>>(results[1]);
  ASSERT_EQ(scores.size(), 3U);
  const std::size_t targets[] = {1, 2, 319};
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(scores[i], reference::log_softmax(row_of(fixture, 7 + i))[targets[i]], 2 * kLogitTolerance);
  const auto& rows = std::get<WholeRows>(results[2]);
  EXPECT_EQ(rows.columns, 320U);
  ASSERT_EQ(rows.values.size(), 2 * 320U);
  for (std::size_t i = 0; i < rows.values.size(); ++i)
    EXPECT_NEAR(rows.values[i], row_of(fixture, 34 + i / 320)[i % 320], kLogitTolerance);
  // These outputs are the rows of several tokens, each treated like the last one.
  const auto& chosen = std::get<std::vector<Chosen>>(results[3]);
  ASSERT_EQ(chosen.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::span<const float> row = row_of(fixture, 20 + i);
    EXPECT_EQ(chosen[i].id, std::ranges::max_element(row) - row.begin());
  }
}

// A sequence returns to an earlier state, as after rejected draft tokens, and another sequence begins with a
// kept state.
TEST(Worker, ReturnsToAStateThatWasKept) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("qwen3next");
  EnginePlan plan =
      make_plan({.model = fixture.folder, .block_size = 8, .cache_tokens = 128, .threads = 1}, comm.size());
  Worker worker(comm, plan, {}, {});
  // Computes the prompt's tokens [begin, end), and checks the last token's logits.
  const auto run = [&](SequenceId sequence, std::size_t begin, std::size_t end, bool starts,
                       ChunkState state) {
    Forward forward;
    forward.tokens.assign(fixture.prompt.begin() + static_cast<std::ptrdiff_t>(begin),
                          fixture.prompt.begin() + static_cast<std::ptrdiff_t>(end));
    SequenceChunk chunk{.sequence = sequence,
                        .start_position = begin,
                        .tokens = static_cast<std::uint32_t>(end - begin),
                        .new_blocks = {},
                        .state = std::move(state)};
    if (starts) {
      chunk.start = SequenceStart{.seed = 5, .prompt_tokens = fixture.prompt.size()};
      for (BlockId block = 0; block < 9; ++block) chunk.new_blocks.push_back(block);
    }
    forward.chunks = {chunk};
    forward.outputs = {{sequence, {static_cast<std::uint32_t>(end - begin - 1), 1}, want::Logits{}}};
    const std::vector<Result> results = worker.run(forward).results;
    if (!comm.is_root()) return;
    const auto& row = std::get<WholeRows>(results.at(0)).values;
    EXPECT_LE(fixture.rows.difference(end - 1, row), 2e-3) << begin << " to " << end;
  };
  run(1, 0, 30, true, {.slot = 2, .from = kNoSlot, .saves = {{16, 0}, {29, 1}}});
  run(1, 30, 50, false, {.slot = 2, .from = kNoSlot, .saves = {}});
  run(1, 29, 40, false, {.slot = 2, .from = 1, .saves = {}});  // returns to position 29
  run(1, 40, 70, false, {.slot = 2, .from = kNoSlot, .saves = {}});
  run(2, 16, 70, true,
      {.slot = 3, .from = 0, .saves = {}});  // starts from the first sequence's state and blocks
}

TEST(Worker, PenalisesEveryRowByTheTokensUpToIt) {
  Communicator& comm = test::world();
  const StoredFixture fixture = reference::stored_fixture("llama-gqa");
  TestedWorker worker(comm, fixture);
  SamplingParams sampling{.temperature = 0.0F,
                          .repetition_penalty = 1e30F};  // no token with a positive logit is chosen twice
  const std::vector<Result> results = worker.run(fixture.prompt, {{1, {0, 36}, want::Choose{}}}, sampling);
  if (!comm.is_root()) return;
  const auto& chosen = std::get<std::vector<Chosen>>(results[0]);
  for (std::size_t row = 0; row < 36; ++row) {
    std::vector<float> logits(row_of(fixture, row).begin(), row_of(fixture, row).end());
    for (std::size_t i = 0; i <= row; ++i) {
      float& logit = logits[static_cast<std::size_t>(fixture.prompt[i])];
      logit = std::min(logit, 0.0F) * 1e30F;
    }
    EXPECT_EQ(chosen[row].id, std::ranges::max_element(logits) - logits.begin()) << row;
  }
}

TEST(Worker, GivesTheHiddenStatesOfOneRankAtEveryRankCount) {
  Communicator& comm = test::world();
  const StoredFixture fixture = reference::stored_fixture("llama-gqa");
  const std::vector<Output> outputs = {{1, {5, 1}, want::Choose{}}, {1, {0, 36}, want::Hidden{}}};
  TestedWorker worker(comm, fixture);
  const std::vector<Result> results = worker.run(fixture.prompt, outputs);
  if (!comm.is_root()) return;
  Communicator self(MPI_COMM_SELF);
  TestedWorker alone(self, fixture);
  const std::vector<Result> expected = alone.run(fixture.prompt, outputs);
  const auto& found = std::get<WholeRows>(results[1]);
  EXPECT_EQ(found.columns, 96U);
  ASSERT_EQ(found.values.size(), 36U * 96);
  for (std::size_t i = 0; i < found.values.size(); ++i)
    EXPECT_NEAR(found.values[i], std::get<WholeRows>(expected[1]).values[i], kLogitTolerance);
  EXPECT_EQ(std::get<std::vector<Chosen>>(results[0]).front().id,
            std::get<std::vector<Chosen>>(expected[0]).front().id);
}

// The worker asks for masks after the forward pass, so a slow mask does not delay the pass.
TEST(Worker, AsksForMasksWhenTheModelHasBeenRun) {
  Communicator& comm = test::world();
  const StoredFixture fixture = reference::stored_fixture("llama-gqa");
  TestedWorker worker(comm, fixture);
  const std::size_t before = comm.stats().all_reduce.calls;
  std::vector<std::size_t> asked;
  const MaskSource masks = [&](std::size_t output) {
    EXPECT_EQ(comm.stats().all_reduce.calls - before, 2U * 2 + 1) << "the pass is not over";
    asked.push_back(output);
    TokenMask mask(320);
    mask.add(static_cast<TokenId>(100 + output));
    return mask;
  };
  want::Choose masked;
  masked.masked = true;
  const std::vector<Result> results =
      worker.run(fixture.prompt, {{1, {3, 1}, want::Choose{}}, {1, {4, 2}, masked}, {1, {9, 1}, masked}},
                 {.temperature = 0.0F}, masks);
  if (!comm.is_root()) {
    EXPECT_TRUE(asked.empty());
    return;
  }
  EXPECT_EQ(asked, (std::vector<std::size_t>{1, 2}));
  const auto id_of = [&](std::size_t output, std::size_t row) {
    return std::get<std::vector<Chosen>>(results[output]).at(row).id;
  };
  EXPECT_EQ(id_of(1, 0), 101);
  EXPECT_EQ(id_of(1, 1), 101);
  EXPECT_EQ(id_of(2, 0), 102);
}

}  // namespace
}  // namespace tp
