// The grids of GGUF's IQ types. A row of a grid is also called an entry. In IQ1's grid, elements are eight
// times the values, plus 1: -7, 1 or 9.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

template <std::size_t kEntries, std::size_t kWidth>
struct Grid {
  std::uint32_t words[kEntries * kWidth / 4];  // each byte is 128 plus an element
  // The low and the high bytes of packed entries; see grid_entries.h. A level is an element's place in
  // `levels`.
  std::uint8_t bytes[2][kEntries];
  std::uint8_t levels[8];  // 128 plus an element; four levels are repeated
};

extern const Grid<256, 8> kIq2XxsRows;
extern const Grid<512, 8> kIq2XsRows;
extern const Grid<1024, 8> kIq2SRows;
extern const Grid<256, 4> kIq3XxsRows;
extern const Grid<512, 4> kIq3SRows;
extern const Grid<2048, 8> kIq1Rows;

}  // namespace tp::kernels
