// The grids of GGUF's IQ types as words of four bytes. A byte is 128 plus an element. IQ1's elements are
// eight times the values, plus 1: -7, 1 or 9.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

template <std::size_t kEntries, std::size_t kWidth>
struct GridWords {
  std::uint32_t words[kEntries * kWidth / 4];
};

extern const GridWords<256, 8> kIq2XxsWords;
extern const GridWords<512, 8> kIq2XsWords;
extern const GridWords<1024, 8> kIq2SWords;
extern const GridWords<256, 4> kIq3XxsWords;
extern const GridWords<512, 4> kIq3SWords;
extern const GridWords<2048, 8> kIq1Words;

}  // namespace tp::kernels
