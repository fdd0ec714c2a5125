#include "model/weights/gguf/gguf_quantize_k.h"

#include "model/weights/gguf/gguf_codebooks.h"
#include "model/weights/gguf/super_block_fit.h"

#include <algorithm>
#include <cstring>

namespace tp {
namespace {

template <int highest_level, std::size_t group_size, int highest_scale>
struct WithOffsets {
  using Levels = WholeLevels<0, highest_level>;
  static constexpr std::size_t kGroupSize = group_size;
  static constexpr int kLowestScale = 0;
  static constexpr int kHighestScale = highest_scale;
  static constexpr int kHighestOffset = highest_scale;
};

template <class LevelsOfType, std::size_t group_size, int lowest_scale>
struct WithSignedScales {
  using Levels = LevelsOfType;
  static constexpr std::size_t kGroupSize = group_size;
  static constexpr int kLowestScale = lowest_scale;
  static constexpr int kHighestScale = -lowest_scale - 1;
  static constexpr int kHighestOffset = 0;
};

using Q2K = WithOffsets<3, 16, 15>;
using Q3K = WithSignedScales<WholeLevels<-4, 3>, 16, -32>;
using Q4K = WithOffsets<15, 32, 63>;
using Q5K = WithOffsets<31, 32, 63>;
using Q6K = WithSignedScales<WholeLevels<-32, 31>, 16, -128>;
using Iq4Xs = WithSignedScales<TableLevels<kIq4Levels>, 32, -32>;

std::uint8_t byte_of(int value) { return static_cast<std::uint8_t>(value); }

void store(const Half& half, std::uint8_t* to) { std::memcpy(to, &half.bits, sizeof half.bits); }

// Packs bits `from` and `from + 1` of the elements. Byte l of each 32 contains elements l, l + 32, l + 64 and
// l + 96.
void pack_two_bits(const std::uint8_t* elements, int from, std::uint8_t* to) {
  for (std::size_t i = 0; i < kSuperBlock; ++i)
    to[i / 128 * 32 + i % 32] |= byte_of((elements[i] >> from & 3) << (i % 128 / 32 * 2));
}

// Packs bit `bit` of the elements. Byte l of 32 contains elements l, l + 32, ...
void pack_one_bit(const std::uint8_t* elements, int bit, std::uint8_t* to) {
  for (std::size_t i = 0; i < kSuperBlock; ++i) to[i % 32] |= byte_of((elements[i] >> bit & 1) << (i / 32));
}

// Packs the low four bits of elements. Elements at distance `apart` share a byte; the first has the low half.
void pack_four_bits(const std::uint8_t* elements, std::size_t apart, std::uint8_t* to) {
  for (std::size_t i = 0; i < kSuperBlock / 2; ++i) {
    const std::uint8_t* const pair = elements + i / apart * 2 * apart + i % apart;
    to[i] = byte_of((pair[0] & 15) | (pair[apart] & 15) << 4);
  }
}

// Packs eight scales and eight offsets of six bits each. The last four scales and offsets share bytes for
// their low bits, and have their high bits above the first four.
template <class Type>
void pack_six_bit_pairs(const SuperBlock<Type>& fit, std::uint8_t* to) {
  for (std::size_t i = 0; i < 4; ++i) {
    to[i] = byte_of(fit.scales[i] | fit.scales[i + 4] >> 4 << 6);
    to[i + 4] = byte_of(fit.offsets[i] | fit.offsets[i + 4] >> 4 << 6);
    to[i + 8] = byte_of((fit.scales[i + 4] & 15) | (fit.offsets[i + 4] & 15) << 4);
  }
}

}  // namespace

void encode_q2_k(const float* elements, std::uint8_t* block) {
  const SuperBlock<Q2K> fit = SuperBlockFit<Q2K>(elements).best();
  std::fill_n(block, 80, std::uint8_t{0});
  for (std::size_t j = 0; j < fit.kGroups; ++j) block[j] = byte_of(fit.scales[j] | fit.offsets[j] << 4);
  pack_two_bits(fit.elements.data(), 0, block + 16);
  store(fit.scale, block + 80);
  store(fit.offset, block + 82);
}

void encode_q3_k(const float* elements, std::uint8_t* block) {
  const SuperBlock<Q3K> fit = SuperBlockFit<Q3K>(elements).best();
  std::fill_n(block, 108, std::uint8_t{0});
  pack_one_bit(fit.elements.data(), 2, block);
  pack_two_bits(fit.elements.data(), 0, block + 32);
  std::uint8_t* const scales = block + 96;
  for (std::size_t j = 0; j < fit.kGroups; ++j) {
    const int scale = fit.scales[j] + 32;
    scales[j % 8] |= byte_of((scale & 15) << (j / 8 * 4));
    scales[8 + j % 4] |= byte_of(scale >> 4 << (j / 4 * 2));
  }
  store(fit.scale, block + 108);
}

void encode_q4_k(const float* elements, std::uint8_t* block) {
  const SuperBlock<Q4K> fit = SuperBlockFit<Q4K>(elements).best();
  store(fit.scale, block);
  store(fit.offset, block + 2);
  pack_six_bit_pairs(fit, block + 4);
  pack_four_bits(fit.elements.data(), 32, block + 16);
}

void encode_q5_k(const float* elements, std::uint8_t* block) {
  const SuperBlock<Q5K> fit = SuperBlockFit<Q5K>(elements).best();
  store(fit.scale, block);
  store(fit.offset, block + 2);
  pack_six_bit_pairs(fit, block + 4);
  std::fill_n(block + 16, 32, std::uint8_t{0});
  pack_one_bit(fit.elements.data(), 4, block + 16);
  pack_four_bits(fit.elements.data(), 32, block + 48);
}

void encode_q6_k(const float* elements, std::uint8_t* block) {
  const SuperBlock<Q6K> fit = SuperBlockFit<Q6K>(elements).best();
  pack_four_bits(fit.elements.data(), 64, block);
  std::fill_n(block + 128, 64, std::uint8_t{0});
  pack_two_bits(fit.elements.data(), 4, block + 128);
  for (std::size_t j = 0; j < fit.kGroups; ++j) block[192 + j] = byte_of(fit.scales[j]);
  store(fit.scale, block + 208);
}

void encode_iq4_xs(const float* elements, std::uint8_t* block) {
  const SuperBlock<Iq4Xs> fit = SuperBlockFit<Iq4Xs>(elements).best();
  store(fit.scale, block);
  std::fill_n(block + 2, 6, std::uint8_t{0});
  for (std::size_t j = 0; j < fit.kGroups; ++j) {
    const int scale = fit.scales[j] + 32;
    block[2 + j / 4] |= byte_of(scale >> 4 << (j % 4 * 2));
    block[4 + j / 2] |= byte_of((scale & 15) << (j % 2 * 4));
  }
  pack_four_bits(fit.elements.data(), 16, block + 8);
}

}  // namespace tp
