#include "model/layers/attention/chosen_blocks.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

const std::vector<std::int32_t> kTable = {70, 71, 72, 73, 74, 75, 76, 77};

// The positions that a sequence shows, in the numbering of kTable, in which the cache's block 70 + i is the
// i-th one.
std::vector<std::size_t> shown(const ShortSequence& sequence, std::size_t block_size) {
  std::vector<std::size_t> positions;
  for (std::size_t place = 0; place < sequence.places; ++place) {
    const auto block = static_cast<std::size_t>(sequence.table[place / block_size] - 70);
    const bool is_last = place + 1 == sequence.places;  // the window shows it
    if (sequence.bias.empty() || is_last || sequence.bias[place] == 0.0F)
      positions.push_back(block * block_size + place % block_size);
  }
  return positions;
}

std::vector<std::size_t> positions_of(const std::vector<std::int32_t>& chosen, std::size_t size,
                                      std::size_t position) {
  std::vector<std::size_t> positions;
  for (const std::int32_t number : chosen) {
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t p = static_cast<std::size_t>(number) * size + i;
      if (p <= position) positions.push_back(p);
    }
  }
  return positions;
}

// Blocks that are smaller than, as large as and larger than those of the cache; the token's own block is
// chosen, partly visible, or not chosen at all.
TEST(ChosenBlocks, ShowTheirPositionsOnly) {
  struct Case {
    std::vector<std::int32_t> chosen;
    std::size_t size;
    std::size_t position;
    std::size_t block_size;
  };
  const std::vector<Case> cases = {{{0, 2, 5}, 4, 23, 4}, {{0, 2, 5}, 4, 21, 4}, {{0, 2}, 4, 23, 4},
                                   {{0, 2, 5}, 4, 22, 3}, {{1, 3}, 4, 23, 3},    {{0, 1, 4}, 4, 19, 16},
                                   {{1, 2}, 4, 31, 16},   {{3, 5}, 4, 23, 5},    {{0, 2}, 8, 20, 4}};
  for (const Case& c : cases) {
    const ShortSequence sequence = sequence_of(c.chosen, c.size, c.position, kTable, c.block_size);
    EXPECT_EQ(shown(sequence, c.block_size), positions_of(c.chosen, c.size, c.position))
        << c.size << " in " << c.block_size << " at " << c.position;
    for (std::size_t place = sequence.places; place < sequence.bias.size(); ++place)
      EXPECT_EQ(sequence.bias[place], -INFINITY);
  }
}

// Cache blocks without chosen positions are left out.
TEST(ChosenBlocks, ReadOnlyTheBlocksOfTheCacheThatTheyTouch) {
  EXPECT_EQ(sequence_of(std::vector<std::int32_t>{1, 6}, 4, 30, kTable, 8).table,
            (std::vector<std::int32_t>{70, 73}));
  EXPECT_EQ(sequence_of(std::vector<std::int32_t>{0, 2}, 4, 30, kTable, 2).table,
            (std::vector<std::int32_t>{70, 71, 74, 75}));
}

}  // namespace
}  // namespace tp
