// Converts weights of every type to tiles of bf16. For tile_kernels.cc only: everything is local to the
// translation unit.
#pragma once

#include "model/kernels/simd/tiles/tile_product.h"
#include "model/kernels/simd/vector/bf16.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

constexpr std::size_t kPanel = 16;
constexpr std::size_t kDepth = 32;  // features of a tile
constexpr std::size_t kGroup = 32;  // elements that share a scale
constexpr std::size_t kBlock = 64;

inline void store_words(const WordVector& v, std::uint32_t* to) {
  store(v, reinterpret_cast<unsigned char*>(to));
}

// Types of weights. An element is the sum of kSummands bf16 numbers. The first bytes_before(k) bytes of a
// panel contain k features, a multiple of 64. bf16 weights are tiles as stored.
struct Bf16Weights {
  static constexpr std::size_t kSummands = 1;
  static constexpr bool kConverts = false;
  static std::size_t bytes_before(const TileProduct& /*p*/, std::size_t k) { return k * kPanel * 2; }
};

// Two bf16 numbers represent the 11 bits of an f16 exactly: `low` is the remainder after rounding to `high`.
struct F16Weights {
  static constexpr std::size_t kSummands = 2;
  static constexpr bool kConverts = true;
  static std::size_t bytes_before(const TileProduct& /*p*/, std::size_t k) { return k * kPanel * 2; }

  // Converts features [begin, end) of a panel, padded to a whole tile.
  static void convert(const TileProduct& /*p*/, const unsigned char* panel, std::size_t begin,
                      std::size_t end, std::uint32_t* high, std::uint32_t* low) {
    for (std::size_t k = begin; k < end || (k - begin) % kDepth != 0; k += 2) {
      const Vector first = k < end ? load_f16(panel + k * kPanel * 2) : Vector{};
      const Vector second = k + 1 < end ? load_f16(panel + (k + 1) * kPanel * 2) : Vector{};
      const WordVector rounded = round_half_up(first, second);
      Vector first_rest;
      Vector second_rest;
      const Vector first_high = even_bf16(rounded);
      const Vector second_high = odd_bf16(rounded);
      for (std::size_t i = 0; i < kParts; ++i) {
        first_rest.part[i] = first.part[i] - first_high.part[i];
        second_rest.part[i] = second.part[i] - second_high.part[i];
      }
      store_words(rounded, high + (k - begin) / 2 * kPanel);
      store_words(round_half_up(first_rest, second_rest), low + (k - begin) / 2 * kPanel);
    }
  }
};

// Byte `j` of each word as float32 without a conversion: as mantissa bits of a number from 256 to 511. kMask:
// the bits of 0x007f8000 that count; other bits are taken as 0.
template <std::uint32_t kMask>
inline Vector bytes_over_256(const WordVector& words, std::size_t j) {
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i) {
    const WordRegister w = words.part[i];
    const WordRegister shifted = j == 0 ? w << 15 : j == 1 ? w << 7 : j == 2 ? w >> 1 : w >> 9;
    out.part[i] = (FloatRegister)((shifted & kMask) | 0x43800000U);
  }
  return out;
}

// Converts 4 elements of each of 16 outputs to 2 rows of pairs: value * scale + shift, exact before rounding.
template <std::uint32_t kMask>
inline void convert_bytes(const WordVector& words, const Vector& scale, const Vector& shift,
                          std::uint32_t* out) {
  for (std::size_t j = 0; j < 4; j += 2) {
    Vector first = shift;
    Vector second = shift;
    multiply_add(bytes_over_256<kMask>(words, j), scale, first);
    multiply_add(bytes_over_256<kMask>(words, j + 1), scale, second);
    store_words(round_half_up(first, second), out + j / 2 * kPanel);
  }
}

inline Vector times(const Vector& v, float factor) {
  Vector out = {};
  multiply_add(v, factor, out);
  return out;
}

constexpr std::size_t kScaleBytes = kPanel * 2;  // bytes of a group's scales
constexpr std::size_t kPrefetchBytes = 2048;

struct Int8Weights {
  static constexpr std::size_t kSummands = 1;
  static constexpr bool kConverts = true;
  static constexpr std::size_t kBlockBytes = kPanel * kBlock + 2 * kScaleBytes;
  static std::size_t bytes_before(const TileProduct& /*p*/, std::size_t k) {
    return k / kBlock * kBlockBytes;
  }

  static void convert(const TileProduct& /*p*/, const unsigned char* panel, std::size_t begin,
                      std::size_t end, std::uint32_t* out, std::uint32_t*) {
    for (std::size_t k = begin; k < end; k += kBlock) {
      const unsigned char* words = panel + k / kBlock * kBlockBytes;
      const unsigned char* scales = words + kPanel * kBlock;
      for (std::size_t g = 0; g < 2; ++g) {
        const Vector scale = load_f16(scales + g * kScaleBytes);
        const Vector shift = times(scale, -256.0F - 128.0F);
        for (std::size_t i = 0; i < kGroup; i += 4, words += kVectorBytes, out += 2 * kPanel) {
          __builtin_prefetch(words + kPrefetchBytes);
          convert_bytes<0x007f8000U>(load_words(words), scale, shift, out);
        }
      }
    }
  }
};

struct Int4Weights {
  static constexpr std::size_t kSummands = 1;
  static constexpr bool kConverts = true;
  static constexpr std::size_t kBlockBytes = kPanel * kBlock / 2 + 2 * kScaleBytes;
  static std::size_t bytes_before(const TileProduct& /*p*/, std::size_t k) {
    return k / kBlock * kBlockBytes;
  }

  static void convert(const TileProduct& /*p*/, const unsigned char* panel, std::size_t begin,
                      std::size_t end, std::uint32_t* out, std::uint32_t*) {
    for (std::size_t k = begin; k < end; k += kBlock, out += kBlock / 2 * kPanel) {
      const unsigned char* block = panel + k / kBlock * kBlockBytes;
      const Vector low_scale = load_f16(block + kPanel * kBlock / 2);
      const Vector low_shift = times(low_scale, -256.0F - 8.0F);
      // The high half of a byte, in its place, is 16 times its value.
      const Vector high = load_f16(block + kPanel * kBlock / 2 + kScaleBytes);
      const Vector high_scale = times(high, 1.0F / 16);
      const Vector high_shift = times(high_scale, -256.0F - 128.0F);
      for (std::size_t i = 0; i < kGroup; i += 4, block += kVectorBytes) {
        __builtin_prefetch(block + kPrefetchBytes);
        const WordVector words = load_words(block);
        convert_bytes<0x00078000U>(words, low_scale, low_shift, out + i / 2 * kPanel);
        convert_bytes<0x00780000U>(words, high_scale, high_shift, out + (kGroup + i) / 2 * kPanel);
      }
    }
  }
};

}  // namespace
}  // namespace tp::kernels
