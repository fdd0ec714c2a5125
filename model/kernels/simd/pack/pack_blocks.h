// Blocks of int8 and int4. For pack_kernels.cc only: everything is local to the translation unit.
#pragma once

#include "model/kernels/simd/pack/pack_strips.h"
#include "model/kernels/simd/vector/quarters.h"

namespace tp::kernels {
namespace {

constexpr std::size_t kGroup = 32;

// Two groups of 16 rows in the layout of int8. A word has four bytes of a row: elements plus the offset with
// which they are stored.
struct Block {
  std::uint32_t words[kStrip / 4][kPanel];
  std::uint16_t scales[2][kPanel];  // f16
};

// Quantization of groups of 32 in each type: the scale is the group's extreme value divided by kDivisor.

// Q8_0: the largest magnitude becomes 127. Source: GGUF, quantize_row_q8_0.
struct Int8Elements {
  static constexpr float kDivisor = 127.0F;

  // The extremes of 16 groups, one per row.
  static Vector extremes_of(const float (*floats)[kStrip], std::size_t column) {
    Vector quarters[4];
    for (std::size_t i = 0; i < 4; ++i) {
      Vector largest[4];
      for (std::size_t j = 0; j < 4; ++j) {
        const float* group = floats[4 * i + j] + column;
        largest[j] = larger(magnitude(load(group)), Vector{});
        largest[j] = larger(magnitude(load(group + kLanes)), largest[j]);
      }
      quarters[i] = best_in_quarters(largest, larger);
    }
    return best_of_quarters(quarters, larger);
  }

  // Rounds ties away from zero.
  static IntRegister element_of(FloatRegister value, float factor) {
    const FloatRegister scaled = value * factor;
#if defined(__AVX512F__)
    // Combines sign and 0.5 in one instruction.
    const __m512i sign = _mm512_set1_epi32(static_cast<std::int32_t>(0x80000000U));
    const __m512i half =
        _mm512_ternarylogic_epi32((__m512i)scaled, sign, (__m512i)(FloatRegister{} + 0.5F), 0xea);
#else
    const WordRegister half = ((WordRegister)scaled & 0x80000000U) | (WordRegister)(FloatRegister{} + 0.5F);
#endif
    return __builtin_convertvector(scaled + (FloatRegister)half, IntRegister);
  }

  // Bytes of elements plus 128. NaN is -128 here, and becomes an element of 0.
  static WordVector bytes_of(const IntVector (&elements)[4]) {
    WordVector bytes = narrow<std::int8_t>(elements);
    for (std::size_t i = 0; i < kParts; ++i) {
      using Bytes __attribute__((vector_size(kRegisterBytes))) = std::int8_t;
      const auto signed_bytes = (Bytes)bytes.part[i];
      bytes.part[i] = (WordRegister)(signed_bytes & (signed_bytes != -128)) ^ 0x80808080U;
    }
    return bytes;
  }
};

// Q4_0: the element of largest magnitude (the first, if there are two) becomes -8. Source: GGUF,
// quantize_row_q4_0.
struct Int4Elements {
  static constexpr float kDivisor = -8.0F;

  static Vector extremes_of(const float (*floats)[kStrip], std::size_t column) {
    Vector highest_quarters[4];
    Vector lowest_quarters[4];
    for (std::size_t i = 0; i < 4; ++i) {
      Vector highest[4];
      Vector lowest[4];
      for (std::size_t j = 0; j < 4; ++j) {
        const Vector first = load(floats[4 * i + j] + column);
        const Vector second = load(floats[4 * i + j] + column + kLanes);
        highest[j] = larger(second, larger(first, Vector{}));
        lowest[j] = smaller(second, smaller(first, Vector{}));
      }
      highest_quarters[i] = best_in_quarters(highest, larger);
      lowest_quarters[i] = best_in_quarters(lowest, smaller);
    }
    const Vector highest = best_of_quarters(highest_quarters, larger);
    const Vector lowest = best_of_quarters(lowest_quarters, smaller);
    const Vector largest = larger(highest, magnitude(lowest));
    float extremes[kPanel];
    for (std::size_t i = 0; i < kParts; ++i) {
      const FloatRegister extreme = highest.part[i] == largest.part[i] ? highest.part[i] : lowest.part[i];
      __builtin_memcpy(extremes + i * kLanes / kParts, &extreme, sizeof(extreme));
    }
    // Rarely, and mostly if stored numbers have few bits, the highest and lowest elements have equal
    // magnitudes.
    for (std::uint32_t ties = equal_lanes(highest, magnitude(lowest)); ties != 0; ties &= ties - 1) {
      const int r = __builtin_ctz(ties);
      const float* group = floats[r] + column;
      const Vector extreme = broadcast(extremes[r]);
      const std::uint32_t first = equal_lanes(magnitude(load(group)), extreme);
      const std::uint32_t second = equal_lanes(magnitude(load(group + kLanes)), extreme);
      const std::uint32_t lanes = first | second << kLanes;
      if (lanes != 0) extremes[r] = group[__builtin_ctz(lanes)];  // a group of NaNs has no extreme
    }
    return load(extremes);
  }

  static IntRegister element_of(FloatRegister value, float factor) {
    const FloatRegister scaled = value * factor;
    return __builtin_convertvector(scaled + 8.5F, IntRegister);
  }

  // Bytes of elements plus 8.
  static WordVector bytes_of(const IntVector (&elements)[4]) {
    WordVector bytes = narrow<std::uint8_t>(elements);
    for (std::size_t i = 0; i < kParts; ++i) {
      using Bytes __attribute__((vector_size(kRegisterBytes))) = std::uint8_t;
      const auto all = (Bytes)bytes.part[i];
      bytes.part[i] = (WordRegister)(all < 15 ? all : Bytes{} + 15);
    }
    return bytes;
  }
};

// Quantizes columns of a strip: multiplies them by the rows' factors, and packs four columns of a row to a
// word.
template <class Elements>
inline void quantize(const float (*floats)[kStrip], std::size_t column, const float* factors, Block& block) {
  WordVector words[4];
  for (std::size_t i = 0; i < 4; ++i) {
    IntVector elements[4];
    for (std::size_t j = 0; j < 4; ++j) {
      const Vector values = load(floats[4 * i + j] + column);
      for (std::size_t k = 0; k < kParts; ++k) {
        elements[j].part[k] = Elements::element_of(values.part[k], factors[4 * i + j]);
      }
    }
    words[i] = Elements::bytes_of(elements);
  }
  transpose_quarters(words);
  for (std::size_t i = 0; i < 4; ++i) {
    store(words[i], reinterpret_cast<unsigned char*>(block.words[column / 4 + i]));
  }
}

// Finds the second group's extremes while the first group's divisions are running.
template <class Elements>
void make_block(const PanelSource& source, std::size_t first, Block& block) {
  float floats[kPanel][kStrip];
  float factors[2][kPanel];
  Vector extremes[2];
  widen({source, first}, floats);
  for (std::size_t g = 0; g < 2; ++g) extremes[g] = Elements::extremes_of(floats, g * kGroup);
  for (std::size_t g = 0; g < 2; ++g) {
    Vector scales;
    Vector inverses;
    for (std::size_t i = 0; i < kParts; ++i) {
      scales.part[i] = extremes[g].part[i] / Elements::kDivisor;
      const auto divisible = (WordRegister)(scales.part[i] != 0.0F);
      inverses.part[i] = (FloatRegister)((WordRegister)(1.0F / scales.part[i]) & divisible);
    }
    store_f16(scales, reinterpret_cast<unsigned char*>(block.scales[g]));
    store(inverses, factors[g]);
  }
  for (std::size_t k = 0; k < kStrip; k += kLanes) quantize<Elements>(floats, k, factors[k / kGroup], block);
}

// Keeps `kBits` of each element, and adds half of their range.
template <int kBits>
void make_block(const GroupSource& source, std::size_t first, Block& block) {
  std::int8_t elements[kPanel][kStrip];
  for (std::size_t r = 0; r < kPanel; ++r) {
    for (std::size_t g = 0; g < 2; ++g) {
      const std::size_t column = first + g * kGroup;
      const bool inside = r < source.rows && column < source.columns;
      block.scales[g][r] = inside ? source.scales[r * source.scale_stride + column / kGroup] : 0;
      if (inside) {
        __builtin_memcpy(elements[r] + g * kGroup, source.elements + r * source.stride + column, kGroup);
      } else {
        __builtin_memset(elements[r] + g * kGroup, 0, kGroup);
      }
    }
  }
  transpose(elements, sizeof(elements[0]), kStrip / 4, block.words);
  constexpr std::uint32_t kOnes = 0x01010101U;
  for (auto& word : block.words) {
    for (std::uint32_t& four : word) {
      four = (four & (kOnes * ((1U << kBits) - 1))) ^ (kOnes << (kBits - 1));
    }
  }
}

// Packs elements of both groups to half-bytes. Returns the beginning of the next block.
inline unsigned char* write_int4(const Block& block, unsigned char* panel) {
  std::uint32_t both[kGroup / 4][kPanel];
  for (std::size_t i = 0; i < kGroup / 4; ++i) {
    for (std::size_t r = 0; r < kPanel; ++r) {
      both[i][r] = block.words[i][r] | block.words[kGroup / 4 + i][r] << 4;
    }
  }
  __builtin_memcpy(panel, both, sizeof(both));
  __builtin_memcpy(panel + sizeof(both), block.scales, sizeof(block.scales));
  return panel + sizeof(both) + sizeof(block.scales);
}

}  // namespace
}  // namespace tp::kernels
