// Loads blocks of the quantized types of checkpoints to vectors; see QuantFormat. For simd/*.cc only:
// everything is local to the translation unit.
#pragma once

#include "model/kernels/simd/matmul/quad_sums.h"
#include "model/kernels/simd/matmul/quant_codes.h"
#include "model/kernels/simd/pack/quant_format.h"
#include "model/kernels/simd/vector/bytes.h"
#include "model/kernels/simd/vector/fp8.h"
#include "model/kernels/simd/vector/known.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

constexpr std::size_t kQuads = 16;  // quads of a block

// Products of numbers and factors. They are exact, because numbers have 8 bits and factors 11.
inline Vector scaled(const IntVector& numbers, const Vector& factors) {
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i)
    out.part[i] = __builtin_convertvector(numbers.part[i], FloatRegister) * factors.part[i];
  return out;
}

inline IntVector minus(const IntVector& numbers, std::int32_t less) {
  IntVector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = numbers.part[i] - less;
  return out;
}

// The halves of bytes.
inline IntVector lower_bits(const IntVector& numbers) {
  IntVector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = numbers.part[i] & 15;
  return out;
}
inline IntVector upper_bits(const IntVector& numbers) {
  IntVector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = numbers.part[i] >> 4;
  return out;
}

// A group's 16 scales.
template <ScaleKind kScales>
inline Vector load_group_scales(const unsigned char* p) {
  if constexpr (kScales == ScaleKind::zero_point_bf16 || kScales == ScaleKind::bf16) return load_bf16(p);
  return load_f16(p);
}

// Unpacks four numbers of six bits from three bytes; see QuantFormat.
inline void load_six_bits(const unsigned char* p, IntVector (&out)[4]) {
  IntVector upper[3];
  for (std::size_t k = 0; k < 3; ++k) {
    const IntVector bytes = load_bytes(p + k * kLanes);
    for (std::size_t i = 0; i < kParts; ++i) {
      out[k].part[i] = bytes.part[i] & 63;
      upper[k].part[i] = bytes.part[i] >> 6;
    }
  }
  for (std::size_t i = 0; i < kParts; ++i)
    out[3].part[i] = upper[0].part[i] | upper[1].part[i] << 2 | upper[2].part[i] << 4;
}

inline Vector load_e8m0(const unsigned char* p) {
  const IntVector exponents = load_bytes(p);
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i) {
    const IntRegister e = exponents.part[i];
    const IntRegister subnormal = (e + 1) << 21;
    out.part[i] = (FloatRegister)(e < 2 ? subnormal : (e - 1) << 23);
  }
  return out;
}

// 16 floats, which may be unaligned.
inline Vector load_floats(const unsigned char* p) {
  const WordVector words = load_words(p);
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i) out.part[i] = (FloatRegister)words.part[i];
  return out;
}

// Quad q of a plane of kBits bits, shifted up by kShift bits.
template <int kBits, int kShift, std::size_t q>
inline WordVector bits_of(const unsigned char* plane) {
  constexpr std::size_t kVectors = 2 * kBits;
  constexpr int kDown = static_cast<int>(q / kVectors) * kBits - kShift;
  constexpr std::uint32_t kMask = (((1U << kBits) - 1) << kShift) * 0x01010101U;
  WordVector out = load_words(plane + q % kVectors * kVectorBytes);
  for (std::size_t i = 0; i < kParts; ++i) {
    if constexpr (kDown >= 0) {
      out.part[i] = (out.part[i] >> kDown) & kMask;
    } else {
      out.part[i] = (out.part[i] << -kDown) & kMask;
    }
  }
  return out;
}

// The elements of quad q, before the format's `zero` is subtracted.
template <const QuantFormat& F, std::size_t q>
inline WordVector elements_of(const unsigned char* block) {
  WordVector out = bits_of<F.low_bits, 0, q>(block);
  if constexpr (F.high_bits > 0) {
    const WordVector high = bits_of<F.high_bits, F.low_bits, q>(block + F.low_bytes());
    for (std::size_t i = 0; i < kParts; ++i) out.part[i] |= high.part[i];
  }
  if constexpr (F.codebook != Codebook::none) out = look_up(values_of(F.codebook), out);
  return out;
}

// The largest value of an element before subtraction of `zero`.
template <const QuantFormat& F>
constexpr int kLargestElement = F.has_codes()                     ? 255
                                : F.codebook == Codebook::iq4     ? 241
                                : F.codebook == Codebook::mxfp4   ? 24
                                : F.codebook == Codebook::nvfp4   ? 140
                                : F.codebook == Codebook::ternary ? 130
                                                                  : (1 << (F.low_bits + F.high_bits)) - 1;

// The scales of a block's groups, and their offsets if the format has offsets.
template <const QuantFormat& F>
struct BlockScales {
  Vector scales[F.groups()];
  Vector offsets[F.groups()];

  [[gnu::always_inline]] BlockScales(const unsigned char* block, const unsigned char* super) {
    const unsigned char* p = block + F.plane_bytes();
    if constexpr (F.has_zero_points()) {
      for (std::size_t g = 0; g < F.scales_of_super(); ++g) {
        const unsigned char* own = super + g * F.kZeroPointBytes;
        scales[g] = load_group_scales<F.scales>(own);
        offsets[g] = scaled(load_bytes(own + 2 * kLanes), scales[g]);
      }
      for (std::size_t g = F.scales_of_super(); g < F.groups(); ++g) {
        scales[g] = scales[0];
        offsets[g] = offsets[0];
      }
    } else if constexpr (F.has_own_scales()) {
      for (std::size_t g = 0; g < F.groups(); ++g) {
        scales[g] = load_group_scales<F.scales>(p + g * F.scale_bytes() / 2);
        if constexpr (F.has_offsets) offsets[g] = load_f16(p + g * F.scale_bytes() / 2 + 2 * kLanes);
      }
    } else if constexpr (F.scales == ScaleKind::e4m3) {
      Vector of_super = load_floats(super);
      for (FloatRegister& part : of_super.part) part *= 128.0F;  // scales are halves
      for (std::size_t g = 0; g < F.groups(); ++g) {
        scales[g] = load_e4m3_over_256(p + g * kLanes);
        for (std::size_t i = 0; i < kParts; ++i) scales[g].part[i] *= of_super.part[i];
      }
    } else if constexpr (F.scales == ScaleKind::super) {
      for (Vector& scale : scales) scale = load_f16(super);
    } else if constexpr (F.scales == ScaleKind::e8m0) {
      for (std::size_t g = 0; g < F.groups(); ++g) scales[g] = load_e8m0(p + g * kLanes);
    } else {
      IntVector numbers[4];
      if constexpr (F.scales == ScaleKind::six_bits) {
        load_six_bits(p, numbers);
      } else {
        for (std::size_t g = 0; g < F.groups(); ++g)
          numbers[g] =
              F.scales == ScaleKind::bytes ? load_signed_bytes(p + g * kLanes) : load_bytes(p + g * kLanes);
      }
      const Vector of_scales = load_f16(super);
      for (std::size_t g = 0; g < F.groups(); ++g) {
        const bool has_both = F.scales == ScaleKind::half_bytes;
        scales[g] = scaled(has_both ? lower_bits(numbers[g]) : minus(numbers[g], F.scale_zero), of_scales);
      }
      if constexpr (F.has_offsets) {
        const Vector of_offsets = load_f16(super + 2 * kLanes);
        for (std::size_t g = 0; g < F.groups(); ++g) {
          const bool has_both = F.scales == ScaleKind::half_bytes;
          offsets[g] = scaled(has_both ? upper_bits(numbers[g]) : numbers[(F.groups() + g) % 4], of_offsets);
        }
      }
    }
  }
};

// A block in the form that all formats share: one byte per element. kSumQuads: see QuadSums; 0 if elements
// have 128 added.
template <std::size_t kSize, bool kWithOffsets, std::size_t kSumQuads>
struct UnpackedBlock {
  static constexpr std::size_t kGroupSize = kSize;
  static constexpr bool kHasOffsets = kWithOffsets;
  static constexpr bool kIsBiased = kSumQuads == 0;
  static constexpr bool kIsUnpacked = true;
  static constexpr std::size_t kQuadsAtOnce = kIsBiased ? 8 : kSumQuads;
  static constexpr std::size_t kGroups = 64 / kGroupSize;

  unsigned char quads[kQuads][kVectorBytes];
  float numbers[kHasOffsets ? 2 * kGroups : kGroups][kLanes];

  Vector scale(std::size_t group) const { return load(numbers[group]); }
  Vector offset(std::size_t group) const { return load(numbers[kGroups + group]); }
};

template <const QuantFormat& F>
using UnpackedOf =
    UnpackedBlock<F.group, F.has_offsets, (kLargestElement<F> > 127) ? 0 : kQuadsOfSum<kLargestElement<F>>>;

template <const QuantFormat& F>
inline void unpack(const unsigned char* block, const unsigned char* super, UnpackedOf<F>& out) {
  if constexpr (F.has_codes()) {
    unpack_codes<F>(block, super, out);
  } else {
    for_known<0, kQuads>([&](auto q) __attribute__((always_inline)) {
      store(elements_of<F, decltype(q)::value>(block), out.quads[decltype(q)::value]);
    });
    const BlockScales<F> scales(block, super);
    for (std::size_t g = 0; g < F.groups(); ++g) {
      store(scales.scales[g], out.numbers[g]);
      if constexpr (F.has_offsets) store(scales.offsets[g], out.numbers[F.groups() + g]);
    }
  }
}

}  // namespace
}  // namespace tp::kernels
