// Compiled once for every instruction set; see simd.h for what may not be used here.
//
// A panel is made of strips of 64 columns, in the first-level cache: 16 rows are copied to a strip and
// rounded there to words of 32 bits (one f32, two bf16, four or eight quantized elements), and the words
// transposed.

#include "model/kernels/simd/pack.h"
#include "model/kernels/simd/vector.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

constexpr std::size_t kPanel = 16;
constexpr std::size_t kGroup = 32;
constexpr std::size_t kTileDepth = 32;  // to a multiple of which columns of bf16 are filled up
constexpr std::size_t kStrip = 64;      // columns: a block of int8 and int4

using Words = std::uint32_t __attribute__((vector_size(16)));
using Halves = std::uint16_t __attribute__((vector_size(16)));

template <class T>
inline T load_as(const void* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

// [16][count] words of 32 bits, in rows `stride` bytes apart, to [count][16]; `count` is a multiple of 4.
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

// NaN stays one.
inline std::uint32_t round_to_bf16(float value) {
  const auto bits = load_as<std::uint32_t>(&value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return (bits & 0x7fffffffU) > 0x7f800000U ? (bits >> 16) | 0x40U : rounded;
}

// As float_to_f16 in half.h, by selection in place of branches.
inline std::uint32_t round_to_f16(float value) {
  const auto bits = load_as<std::uint32_t>(&value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  const float shifted = load_as<float>(&magnitude) + 0.5F;
  const std::uint32_t subnormal = load_as<std::uint32_t>(&shifted) - 0x3f000000U;
  std::uint32_t half = magnitude < 0x38800000U ? subnormal : normal;
  half = magnitude >= 0x477ff000U ? 0x7c00U : half;
  half = magnitude > 0x7f800000U ? 0x7e00U : half;
  return half | ((bits >> 16) & 0x8000U);
}

// The columns of a source from `first` on, up to 64 of them.
struct Strip {
  const PanelSource& source;
  std::size_t first;

  std::size_t width() const { return source.columns - first < kStrip ? source.columns - first : kStrip; }
  const unsigned char* row(std::size_t index, std::size_t element_bytes) const {
    return source.data + index * source.stride + first * element_bytes;
  }
};

// Rows are fetched this far ahead: there are too many of them for the processor to do it.
constexpr std::size_t kStripsAhead = 4;

// [16][64] elements as they are stored, zeros beyond the source.
template <class Element>
void copy(const Strip& strip, Element (*out)[kStrip]) {
  const std::size_t width = strip.width();
  for (std::size_t r = 0; r < kPanel; ++r) {
    const std::size_t size = r < strip.source.rows ? width : 0;
    if (size == kStrip) {
      for (std::size_t i = 0; i < sizeof(out[r]); i += kVectorBytes) {
        __builtin_prefetch(strip.row(r, sizeof(Element)) + kStripsAhead * sizeof(out[r]) + i);
      }
      __builtin_memcpy(out[r], strip.row(r, sizeof(Element)), sizeof(out[r]));
    } else {
      if (size > 0) __builtin_memcpy(out[r], strip.row(r, sizeof(Element)), size * sizeof(Element));
      for (std::size_t i = size; i < kStrip; ++i) out[r][i] = 0;
    }
  }
}

// The same as float32.
void widen(const Strip& strip, float (*out)[kStrip]) {
  if (strip.source.type == DType::f32) return copy(strip, out);
  std::uint16_t halves[kPanel][kStrip];
  copy(strip, halves);
  for (std::size_t r = 0; r < kPanel; ++r) {
    if (strip.source.type == DType::bf16) {
      const std::uint16_t* in = halves[r];
      auto* bits = reinterpret_cast<std::uint8_t*>(out[r]);
      for (std::size_t i = 0; i < kStrip; ++i) {
        const std::uint32_t word = std::uint32_t{in[i]} << 16;
        __builtin_memcpy(bits + i * sizeof(word), &word, sizeof(word));
      }
    } else {
      for (std::size_t i = 0; i < kStrip; i += kLanes) {
        store(load_f16(reinterpret_cast<const unsigned char*>(halves[r] + i)), out[r] + i);
      }
    }
  }
}

// [16][64] elements of 16 bits: those of a source that has them, or rounded ones.
template <DType kType>
void make_halves(const Strip& strip, std::uint16_t (*out)[kStrip]) {
  if (strip.source.type == kType) return copy(strip, out);
  float floats[kPanel][kStrip];
  widen(strip, floats);
  for (std::size_t r = 0; r < kPanel; ++r) {
#pragma omp simd
    for (std::size_t i = 0; i < kStrip; ++i) {
      out[r][i] = static_cast<std::uint16_t>(kType == DType::bf16 ? round_to_bf16(floats[r][i])
                                                                  : round_to_f16(floats[r][i]));
    }
  }
}

// Calls write(strip, out) for every strip of a panel whose columns take `column_bytes`; a last one that is
// cut short is written to memory of its own first.
template <class Write>
void for_strips(const PanelSource& source, std::size_t column_bytes, std::size_t padded_columns,
                unsigned char* panel, const Write& write) {
  for (std::size_t first = 0; first < source.columns; first += kStrip) {
    unsigned char* out = panel + first * column_bytes;
    if (first + kStrip <= padded_columns) {
      write(Strip{source, first}, out);
    } else {
      unsigned char rest[kStrip * kPanel * sizeof(float)];
      write(Strip{source, first}, rest);
      __builtin_memcpy(out, rest, (padded_columns - first) * column_bytes);
    }
  }
}

void f32(const PanelSource& source, unsigned char* panel) {
  for_strips(source, kPanel * 4, source.columns, panel, [](const Strip& strip, unsigned char* out) {
    float floats[kPanel][kStrip];
    widen(strip, floats);
    transpose(floats, sizeof(floats[0]), kStrip, out);
  });
}

void bf16(const PanelSource& source, unsigned char* panel) {
  const std::size_t padded = (source.columns + kTileDepth - 1) / kTileDepth * kTileDepth;
  for_strips(source, kPanel * 2, padded, panel, [](const Strip& strip, unsigned char* out) {
    std::uint16_t halves[kPanel][kStrip];
    make_halves<DType::bf16>(strip, halves);
    transpose(halves, sizeof(halves[0]), kStrip / 2, out);
  });
}

// Pairs of columns become columns.
void f16(const PanelSource& source, unsigned char* panel) {
  for_strips(source, kPanel * 2, source.columns, panel, [](const Strip& strip, unsigned char* out) {
    std::uint16_t halves[kPanel][kStrip];
    std::uint32_t pairs[kStrip / 2][kPanel];
    make_halves<DType::f16>(strip, halves);
    transpose(halves, sizeof(halves[0]), kStrip / 2, pairs);
    for (const auto& pair : pairs) {
      for (std::size_t r = 0; r < kPanel; r += 8, out += sizeof(Halves)) {
        const auto low = load_as<Halves>(pair + r);
        const auto high = load_as<Halves>(pair + r + 4);
        const Halves even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
        const Halves odd = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
        __builtin_memcpy(out, &even, sizeof(even));
        __builtin_memcpy(out + kPanel * sizeof(std::uint16_t), &odd, sizeof(odd));
      }
      out += kPanel * sizeof(std::uint16_t);
    }
  });
}

// Two groups of 16 rows.
struct Block {
  std::int8_t elements[kPanel][kStrip];
  std::uint16_t scales[2][kPanel];  // f16
};

// How a type quantizes groups of 32: the scale is the group's extreme value divided by kDivisor.

// Q8_0: the scale makes the largest magnitude 127. Source: GGUF, quantize_row_q8_0.
struct Int8Elements {
  static constexpr float kDivisor = 127.0F;

  static float extreme_of(const float* values) {
    float largest = 0.0F;
#pragma omp simd reduction(max : largest)
    for (std::size_t i = 0; i < kGroup; ++i) {
      const float magnitude = __builtin_fabsf(values[i]);
      largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
  }

  static std::int8_t element_of(float scaled) {
    // Ties away from zero.
    return static_cast<std::int8_t>(static_cast<std::int32_t>(scaled + __builtin_copysignf(0.5F, scaled)));
  }
};

// Q4_0: the scale makes the element of the largest magnitude, of two the first, -8. Source: GGUF,
// quantize_row_q4_0.
struct Int4Elements {
  static constexpr float kDivisor = -8.0F;

  static float extreme_of(const float* values) {
    float highest = 0.0F;
    float lowest = 0.0F;
#pragma omp simd reduction(max : highest) reduction(min : lowest)
    for (std::size_t i = 0; i < kGroup; ++i) {
      highest = values[i] > highest ? values[i] : highest;
      lowest = values[i] < lowest ? values[i] : lowest;
    }
    for (std::size_t i = 0; highest == -lowest && i < kGroup; ++i) {
      if (__builtin_fabsf(values[i]) == highest) return values[i];
    }
    return highest > -lowest ? highest : lowest;
  }

  static std::int8_t element_of(float scaled) {
    const auto element = static_cast<std::int32_t>(scaled + 8.5F);
    return static_cast<std::int8_t>((element < 15 ? element : 15) - 8);
  }
};

// The scales of all rows are made at once: divisions and roundings to f16 fill vectors.
template <class Elements>
void make_block(const PanelSource& source, std::size_t first, Block& block) {
  float floats[kPanel][kStrip];
  widen({source, first}, floats);
  for (std::size_t g = 0; g < 2; ++g) {
    float factors[kPanel];
    for (std::size_t r = 0; r < kPanel; ++r) factors[r] = Elements::extreme_of(floats[r] + g * kGroup);
#pragma omp simd
    for (std::size_t r = 0; r < kPanel; ++r) {
      const float scale = factors[r] / Elements::kDivisor;
      block.scales[g][r] = static_cast<std::uint16_t>(round_to_f16(scale));
      factors[r] = scale == 0.0F ? 0.0F : 1.0F / scale;
    }
    for (std::size_t r = 0; r < kPanel; ++r) {
      const float* values = floats[r] + g * kGroup;
      std::int8_t* elements = block.elements[r] + g * kGroup;
#pragma omp simd
      for (std::size_t i = 0; i < kGroup; ++i) elements[i] = Elements::element_of(values[i] * factors[r]);
    }
  }
}

void make_block(const GroupSource& source, std::size_t first, Block& block) {
  for (std::size_t r = 0; r < kPanel; ++r) {
    for (std::size_t g = 0; g < 2; ++g) {
      const std::size_t column = first + g * kGroup;
      const bool inside = r < source.rows && column < source.columns;
      block.scales[g][r] = inside ? source.scales[r * source.scale_stride + column / kGroup] : 0;
      if (inside) {
        __builtin_memcpy(block.elements[r] + g * kGroup, source.elements + r * source.stride + column,
                         kGroup);
      } else {
        __builtin_memset(block.elements[r] + g * kGroup, 0, kGroup);
      }
    }
  }
}

// They return where the next block begins.
unsigned char* write_int8(const Block& block, unsigned char* panel) {
  std::uint32_t words[kStrip / 4][kPanel];
  transpose(block.elements, sizeof(block.elements[0]), kStrip / 4, words);
  for (auto& word : words) {
    for (std::uint32_t& four : word) four ^= 0x80808080U;  // adds 128 to every byte
  }
  __builtin_memcpy(panel, words, sizeof(words));
  __builtin_memcpy(panel + sizeof(words), block.scales, sizeof(block.scales));
  return panel + sizeof(words) + sizeof(block.scales);
}

unsigned char* write_int4(const Block& block, unsigned char* panel) {
  std::uint32_t words[kStrip / 4][kPanel];
  std::uint32_t both[kGroup / 4][kPanel];
  transpose(block.elements, sizeof(block.elements[0]), kStrip / 4, words);
  for (std::size_t i = 0; i < kGroup / 4; ++i) {
    for (std::size_t r = 0; r < kPanel; ++r) {
      const std::uint32_t low = words[i][r] & 0x0f0f0f0fU;
      const std::uint32_t high = words[kGroup / 4 + i][r] & 0x0f0f0f0fU;
      both[i][r] = (low | high << 4) ^ 0x88888888U;  // adds 8 to every half of a byte
    }
  }
  __builtin_memcpy(panel, both, sizeof(both));
  __builtin_memcpy(panel + sizeof(both), block.scales, sizeof(block.scales));
  return panel + sizeof(both) + sizeof(block.scales);
}

void int8(const PanelSource& source, unsigned char* panel) {
  Block block;
  for (std::size_t first = 0; first < source.columns; first += kStrip) {
    make_block<Int8Elements>(source, first, block);
    panel = write_int8(block, panel);
  }
}

void int4(const PanelSource& source, unsigned char* panel) {
  Block block;
  for (std::size_t first = 0; first < source.columns; first += kStrip) {
    make_block<Int4Elements>(source, first, block);
    panel = write_int4(block, panel);
  }
}

void int8_groups(const GroupSource& source, unsigned char* panel) {
  Block block;
  for (std::size_t first = 0; first < source.columns; first += kStrip) {
    make_block(source, first, block);
    panel = write_int8(block, panel);
  }
}

void int4_groups(const GroupSource& source, unsigned char* panel) {
  Block block;
  for (std::size_t first = 0; first < source.columns; first += kStrip) {
    make_block(source, first, block);
    panel = write_int4(block, panel);
  }
}

}  // namespace

extern const PackKernels kPackKernels;
const PackKernels kPackKernels = {f32, f16, bf16, int8, int4, int8_groups, int4_groups};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
