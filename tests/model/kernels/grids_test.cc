// The grids match those in ggml's files.
#include "model/kernels/simd/pack/grids.h"

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

namespace tp {
namespace {

// FNV-1a of the bytes of a table in ggml-common.h, little endian. `step`: an element's difference from 128 is
// this times ggml's, plus step / 8.
template <class Grid>
std::uint64_t hash_of_elements(const Grid& grid, int step = 1) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::uint32_t word : grid.words) {
    for (int shift = 0; shift < 32; shift += 8) {
      const int element = static_cast<int>(word >> shift & 255U) - 128;
      EXPECT_EQ((element - step / 8) % step, 0);
      hash = (hash ^ static_cast<std::uint8_t>((element - step / 8) / step)) * 0x100000001b3U;
    }
  }
  return hash;
}

// Computed from ggml-common.h of llama.cpp, as in node-llama-cpp 3.22.1: iq2xxs_grid ... iq1s_grid.
TEST(Grids, HaveTheChecksumsOfGgmlsTables) {
  EXPECT_EQ(hash_of_elements(kernels::kIq2XxsRows), 0xbb4ee025b5ac6e8eU);
  EXPECT_EQ(hash_of_elements(kernels::kIq2XsRows), 0xc9b1ee61e79909bdU);
  EXPECT_EQ(hash_of_elements(kernels::kIq2SRows), 0x123edd38a3b62b90U);
  EXPECT_EQ(hash_of_elements(kernels::kIq3XxsRows), 0xdfa5dc83d6a155d5U);
  EXPECT_EQ(hash_of_elements(kernels::kIq3SRows), 0xfa37020c25b44829U);
  EXPECT_EQ(hash_of_elements(kernels::kIq1Rows, 8), 0x6703ed863501ae2eU);
}

// Kernels read words, or packed entries and levels.
template <std::size_t kEntries, std::size_t kWidth>
void expect_same_elements(const kernels::Grid<kEntries, kWidth>& grid) {
  constexpr std::size_t kBits = kWidth == 8 ? 2 : 3;
  for (std::size_t i = 0; i < kEntries * kWidth; ++i) {
    const unsigned entry = grid.bytes[0][i / kWidth] | grid.bytes[1][i / kWidth] << 8;
    const unsigned level = entry >> (i % kWidth * kBits) & ((1U << kBits) - 1);
    ASSERT_EQ(grid.levels[level], grid.words[i / 4] >> (i % 4 * 8) & 255U) << "element " << i;
  }
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(grid.levels[i], grid.levels[i % (std::size_t{1} << kBits)]);
}

TEST(Grids, HaveTheSameElementsInBothForms) {
  expect_same_elements(kernels::kIq2XxsRows);
  expect_same_elements(kernels::kIq2XsRows);
  expect_same_elements(kernels::kIq2SRows);
  expect_same_elements(kernels::kIq3XxsRows);
  expect_same_elements(kernels::kIq3SRows);
  expect_same_elements(kernels::kIq1Rows);
}

}  // namespace
}  // namespace tp
