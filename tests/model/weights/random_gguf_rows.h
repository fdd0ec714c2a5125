// Random rows of GGUF's types with blocks.
#pragma once

#include "model/kernels/half.h"
#include "model/weights/gguf/gguf_type.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace tp::test {

// The places of a block's f16 numbers, in bytes. Blocks of IQ1_M have one f16 number in four parts.
inline std::vector<std::size_t> halves_of(std::string_view type) {
  if (type == "Q4_1" || type == "Q5_1" || type == "Q4_K" || type == "Q5_K") return {0, 2};
  if (type == "Q2_K") return {80, 82};
  if (type == "Q3_K") return {108};
  if (type == "Q6_K") return {208};
  if (type == "TQ1_0") return {52};
  if (type == "TQ2_0") return {64};
  if (type == "MXFP4" || type == "NVFP4" || type == "IQ1_M") return {};
  return {0};
}

// Returns the bits of a finite f16, possibly subnormal.
inline std::uint16_t random_half(std::mt19937& random) {
  const double number = static_cast<double>(random() % 2001) - 1000.0;
  return kernels::float_to_f16(static_cast<float>(std::ldexp(number, -10 - static_cast<int>(random() % 14))));
}

// Sets a block's f16 numbers: next() returns the bits of each.
template <class Next>
void set_halves(const GgufType& type, std::uint8_t* block, const Next& next) {
  for (const std::size_t place : halves_of(type.name)) {
    const std::uint16_t half = next();
    std::memcpy(block + place, &half, sizeof half);
  }
  if (type.name != "IQ1_M") return;
  const unsigned half = next();
  for (std::size_t i = 0; i < 4; ++i) {
    std::uint8_t& byte = block[49 + 2 * i];
    byte = static_cast<std::uint8_t>((byte & 15U) | (half >> (4 * i) & 15U) << 4);
  }
}

// Fills a block with random bytes, or with all or no bits set, and with finite f16 numbers.
inline void fill_block(const GgufType& type, std::mt19937& random, std::uint8_t* block) {
  const unsigned pattern = random() % 8;
  for (std::size_t i = 0; i < type.block_bytes; ++i)
    block[i] = pattern == 0 ? 0 : pattern == 1 ? 255 : static_cast<std::uint8_t>(random());
  set_halves(type, block, [&] { return random_half(random); });
}

inline std::vector<std::uint8_t> random_gguf_row(const GgufType& type, std::size_t elements,
                                                 std::mt19937& random) {
  std::vector<std::uint8_t> row(type.bytes_of(elements));
  for (std::size_t place = 0; place < row.size(); place += type.block_bytes)
    fill_block(type, random, row.data() + place);
  return row;
}

}  // namespace tp::test
