#include "model/layers/attention/open_pools.h"

#include "model/memory/workspace.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kTokensOfPool = 4;
constexpr std::size_t kElements = 3;

// Element `column` of the raw row of a sequence's position.
float value_of(std::size_t sequence, std::size_t position, std::size_t column) {
  return static_cast<float>(1000 * sequence + 10 * position + column);
}

// Consecutive tokens of a sequence, and the slots of its state.
struct Tokens {
  std::size_t sequence = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  StateSpan state{};
};

class OpenPoolsTest : public testing::Test {
 protected:
  explicit OpenPoolsTest(bool overlaps = false) : overlaps_(overlaps) {}

  // Expects the rows of a pool's positions, from `first` on.
  static void expect_rows(const std::vector<const float*>& rows, std::size_t sequence, std::size_t first) {
    ASSERT_EQ(rows.size(), kTokensOfPool);
    for (std::size_t row = 0; row < kTokensOfPool; ++row) {
      for (std::size_t column = 0; column < kElements; ++column)
        EXPECT_EQ(rows[row][column], value_of(sequence, first + row, column));
    }
  }

  // Computes the runs in one batch, and expects that they close these pools: sequences and numbers.
  void expect_closed(const std::vector<Tokens>& runs,
                     const std::vector<std::pair<std::size_t, std::size_t>>& expected) {
    std::vector<float> rows;
    Batch batch;
    batch.spans.resize(1);
    for (const Tokens& run : runs) {
      batch.spans[0].push_back({.first_token = rows.size() / kElements,
                                .tokens = run.end - run.begin,
                                .start_position = run.begin,
                                .block_table = {}});
      batch.states.push_back(run.state);
      for (std::size_t position = run.begin; position < run.end; ++position) {
        for (std::size_t column = 0; column < kElements; ++column)
          rows.push_back(value_of(run.sequence, position, column));
      }
    }
    const TensorView<const float> raw(rows.data(), rows.size() / kElements, kElements);
    const StepContext step{.batch = batch, .workspace = workspace_, .states = states_.layer(0)};
    const std::vector<OpenPools::Closed> closed = pools_.closed(raw, step);
    ASSERT_EQ(closed.size(), expected.size());
    for (std::size_t i = 0; i < closed.size(); ++i) {
      const auto index = static_cast<std::size_t>(closed[i].span - batch.spans[0].data());
      EXPECT_EQ(runs[index].sequence, expected[i].first);
      EXPECT_EQ(closed[i].number, expected[i].second);
      expect_rows(closed[i].rows, runs[index].sequence, closed[i].number * kTokensOfPool);
      if (overlaps_ && closed[i].number > 0)
        expect_rows(closed[i].rows_before, runs[index].sequence, (closed[i].number - 1) * kTokensOfPool);
      else
        EXPECT_TRUE(closed[i].rows_before.empty());
    }
    pools_.keep(raw, step);
  }

  bool overlaps_;
  OpenPools pools_{kTokensOfPool, kElements, overlaps_};
  StateCache states_{std::vector<std::size_t>{pools_.state_floats()}, 4};
  Workspace workspace_{1000};
};

TEST_F(OpenPoolsTest, CloseWithTheirLastTokenWhateverTheSteps) {
  expect_closed({{.begin = 0, .end = 3, .state = {.slot = 0}}}, {});
  expect_closed({{.begin = 3, .end = 4, .state = {.slot = 0}}}, {{0, 0}});
  expect_closed({{.begin = 4, .end = 5, .state = {.slot = 0}}}, {});
  expect_closed({{.begin = 5, .end = 6, .state = {.slot = 0}}}, {});
  expect_closed({{.begin = 6, .end = 17, .state = {.slot = 0}}}, {{0, 1}, {0, 2}, {0, 3}});
}

TEST_F(OpenPoolsTest, OfSequencesInABatchAreApart) {
  expect_closed({{.sequence = 1, .begin = 0, .end = 6, .state = {.slot = 1}},
                 {.sequence = 2, .begin = 0, .end = 3, .state = {.slot = 0}}},
                {{1, 0}});
  expect_closed({{.sequence = 2, .begin = 3, .end = 8, .state = {.slot = 0}},
                 {.sequence = 1, .begin = 6, .end = 8, .state = {.slot = 1}}},
                {{2, 0}, {2, 1}, {1, 1}});
}

// Copies of the state from the middle of a step, as refused drafts and reused prefixes need them.
TEST_F(OpenPoolsTest, OpenAgainFromCopiesOfTheState) {
  expect_closed({{.begin = 0, .end = 2, .state = {.slot = 0}}}, {});
  expect_closed({{.begin = 2,
                  .end = 9,
                  .state = {.slot = 0, .saves = {{.tokens = 1, .slot = 1}, {.tokens = 5, .slot = 2}}}}},
                {{0, 0}, {0, 1}});
  expect_closed({{.begin = 3, .end = 4, .state = {.slot = 1}}}, {{0, 0}});
  expect_closed({{.begin = 7, .end = 12, .state = {.slot = 2}}}, {{0, 1}, {0, 2}});
  expect_closed({{.begin = 9, .end = 12, .state = {.slot = 0}}}, {{0, 2}});
}

// A pool also reads the pool before it, from the state if need be.
class OverlappingPools : public OpenPoolsTest {
 protected:
  OverlappingPools() : OpenPoolsTest(true) {}
};

TEST_F(OverlappingPools, HaveTheRowsOfThePoolBeforeThem) {
  expect_closed({{.begin = 0, .end = 5, .state = {.slot = 0}}}, {{0, 0}});
  expect_closed({{.begin = 5, .end = 7, .state = {.slot = 0}}}, {});
  expect_closed({{.begin = 7, .end = 8, .state = {.slot = 0}}}, {{0, 1}});
  expect_closed({{.begin = 8,
                  .end = 22,
                  .state = {.slot = 0, .saves = {{.tokens = 2, .slot = 1}, {.tokens = 4, .slot = 2}}}}},
                {{0, 2}, {0, 3}, {0, 4}});
  expect_closed({{.begin = 10, .end = 12, .state = {.slot = 1}}}, {{0, 2}});
  expect_closed({{.begin = 12, .end = 16, .state = {.slot = 2}}}, {{0, 3}});
  expect_closed({{.begin = 22, .end = 24, .state = {.slot = 0}}}, {{0, 5}});
}

}  // namespace
}  // namespace tp
