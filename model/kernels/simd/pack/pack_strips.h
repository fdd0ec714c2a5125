// Strips of 64 columns of stored rows, and their transposition. For pack_kernels.cc only: everything is local
// to the translation unit.
#pragma once

#include "model/kernels/simd/pack/pack.h"
#include "model/kernels/simd/vector/vector.h"

namespace tp::kernels {
namespace {

constexpr std::size_t kPanel = 16;
constexpr std::size_t kStrip = 64;  // columns: a block of int8 and int4

using Words = std::uint32_t __attribute__((vector_size(16)));

template <class T>
inline T load_as(const void* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

// Transposes [16][count] words of 32 bits, in rows `stride` bytes apart, to [count][16]; `count` is a
// multiple of 4.
void transpose(const void* rows, std::size_t stride, std::size_t count, void* out) {
  for (std::size_t k = 0; k < count; k += 4) {
    for (std::size_t r = 0; r < kPanel; r += 4) {
      const auto* in = static_cast<const unsigned char*>(rows) + r * stride + k * sizeof(std::uint32_t);
      const auto a = load_as<Words>(in);
      const auto b = load_as<Words>(in + stride);
      const auto c = load_as<Words>(in + 2 * stride);
      const auto d = load_as<Words>(in + 3 * stride);
      const Words ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Words cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const Words ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Words cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      const Words columns[4] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                                __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                                __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                                __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
      for (std::size_t i = 0; i < 4; ++i) {
        __builtin_memcpy(static_cast<std::uint32_t*>(out) + (k + i) * kPanel + r, &columns[i], sizeof(Words));
      }
    }
  }
}

// Distance at which rows are prefetched: the processor does not prefetch so many rows by itself.
constexpr std::size_t kStripsAhead = 6;

// Up to 64 columns of a source, from `first` on.
struct Strip {
  const PanelSource& source;
  std::size_t first;

  std::size_t width() const { return source.columns - first < kStrip ? source.columns - first : kStrip; }
  bool is_whole() const { return source.rows == kPanel && width() == kStrip; }
  const unsigned char* row(std::size_t index, std::size_t element_bytes) const {
    return source.data + index * source.stride + first * element_bytes;
  }
  // Bytes from here to the strip to prefetch. After the last strip of these rows, the first strips of the
  // next 16 rows follow. If there are none, prefetching does no harm.
  std::size_t ahead(std::size_t element_bytes) const {
    const std::size_t columns = kStripsAhead * kStrip;
    if (first + columns < source.columns) return columns * element_bytes;
    return kPanel * source.stride + columns * element_bytes - source.columns * element_bytes;
  }
};

// [16][64] elements as stored; zeros outside the source.
template <class Element>
void copy(const Strip& strip, Element (*out)[kStrip]) {
  const std::size_t ahead = strip.ahead(sizeof(Element));
  const std::size_t width = strip.width();
  for (std::size_t r = 0; r < kPanel; ++r) {
    const std::size_t size = r < strip.source.rows ? width : 0;
    if (size == kStrip) {
      for (std::size_t i = 0; i < sizeof(out[r]); i += kVectorBytes) {
        __builtin_prefetch(strip.row(r, sizeof(Element)) + ahead + i);
      }
      __builtin_memcpy(out[r], strip.row(r, sizeof(Element)), sizeof(out[r]));
    } else {
      if (size > 0) __builtin_memcpy(out[r], strip.row(r, sizeof(Element)), size * sizeof(Element));
      for (std::size_t i = size; i < kStrip; ++i) out[r][i] = 0;
    }
  }
}

inline Vector load_f32(const unsigned char* p) { return load(reinterpret_cast<const float*>(p)); }

// Calls use(row, column, 16 numbers) for all numbers of a strip. Most strips need no copy.
template <class Element, Vector (*kLoad)(const unsigned char*), class Use>
inline void for_vectors(const Strip& strip, const Use& use) {
  Element filled[kPanel][kStrip];
  const unsigned char* in = strip.row(0, sizeof(Element));
  std::size_t stride = strip.source.stride;
  std::size_t ahead = strip.ahead(sizeof(Element));
  if (!strip.is_whole()) {
    copy(strip, filled);
    in = reinterpret_cast<const unsigned char*>(filled);
    stride = sizeof(filled[0]);
    ahead = 0;
  }
  for (std::size_t r = 0; r < kPanel; ++r, in += stride) {
    for (std::size_t i = 0; i < kStrip; i += kLanes) {
      const std::size_t byte = i * sizeof(Element);
      if (byte % kVectorBytes == 0) __builtin_prefetch(in + ahead + byte);
      use(r, i, kLoad(in + byte));
    }
  }
}
template <class Use>
inline void for_vectors(const Strip& strip, const Use& use) {
  if (strip.source.type == DType::f32) return for_vectors<std::uint32_t, load_f32>(strip, use);
  if (strip.source.type == DType::f16) return for_vectors<std::uint16_t, load_f16>(strip, use);
  for_vectors<std::uint16_t, load_bf16>(strip, use);
}

// [16][64] elements as float32.
inline void widen(const Strip& strip, float (*out)[kStrip]) {
  for_vectors(strip, [out](std::size_t r, std::size_t i, const Vector& v) { store(v, out[r] + i); });
}

}  // namespace
}  // namespace tp::kernels
