#include "model/weights/gguf/gguf_dequantize.h"

#include "model/kernels/code_string.h"
#include "model/weights/gguf/gguf_codebooks.h"
#include "model/weights/gguf/gguf_codes.h"
#include "model/weights/gguf/gguf_encoded_rows.h"
#include "model/weights/source/widen.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace tp {
namespace {

constexpr std::size_t kGroup = 32;   // elements of a block of the simple types
constexpr std::size_t kSuper = 256;  // elements of a block of the K types

std::uint16_t f16_bits(const std::uint8_t* from) {
  return static_cast<std::uint16_t>(from[0] | from[1] << 8);
}
float f16_at(const std::uint8_t* from) { return float_from_f16(f16_bits(from)); }

// The integers of a block of 32, which follow its scale.

void integers_q8_0(const std::uint8_t* block, std::int8_t* out) { std::memcpy(out, block + 2, kGroup); }

// Two elements per byte: i in the low half, i + 16 in the high half.
void nibbles(const std::uint8_t* packed, std::uint8_t* out) {
  for (std::size_t i = 0; i < kGroup / 2; ++i) {
    out[i] = packed[i] & 15;
    out[i + kGroup / 2] = packed[i] >> 4;
  }
}

// Like nibbles, with a fifth bit for each element.
void nibbles_and_bits(const std::uint8_t* packed, const std::uint8_t* bits, std::uint8_t* out) {
  std::uint32_t fifth = 0;
  std::memcpy(&fifth, bits, sizeof fifth);
  nibbles(packed, out);
  for (std::size_t i = 0; i < kGroup; ++i) out[i] |= static_cast<std::uint8_t>((fifth >> i & 1) << 4);
}

void shifted(const std::uint8_t* values, int shift, std::int8_t* out) {
  for (std::size_t i = 0; i < kGroup; ++i) out[i] = static_cast<std::int8_t>(values[i] - shift);
}

void integers_q4_0(const std::uint8_t* block, std::int8_t* out) {
  std::array<std::uint8_t, kGroup> values;
  nibbles(block + 2, values.data());
  shifted(values.data(), 8, out);
}

void integers_q5_0(const std::uint8_t* block, std::int8_t* out) {
  std::array<std::uint8_t, kGroup> values;
  nibbles_and_bits(block + 6, block + 2, values.data());
  shifted(values.data(), 16, out);
}

template <void (*integers)(const std::uint8_t*, std::int8_t*)>
void scaled_group(const std::uint8_t* block, float* out) {
  std::array<std::int8_t, kGroup> values;
  integers(block, values.data());
  const float scale = f16_at(block);
  for (std::size_t i = 0; i < kGroup; ++i) out[i] = scale * static_cast<float>(values[i]);
}

void scaled_and_offset(const std::uint8_t* block, const std::uint8_t* values, float* out) {
  const float scale = f16_at(block);
  const float offset = f16_at(block + 2);
  for (std::size_t i = 0; i < kGroup; ++i) out[i] = scale * static_cast<float>(values[i]) + offset;
}

void block_q4_1(const std::uint8_t* block, float* out) {
  std::array<std::uint8_t, kGroup> values;
  nibbles(block + 4, values.data());
  scaled_and_offset(block, values.data(), out);
}

void block_q5_1(const std::uint8_t* block, float* out) {
  std::array<std::uint8_t, kGroup> values;
  nibbles_and_bits(block + 8, block + 4, values.data());
  scaled_and_offset(block, values.data(), out);
}

void looked_up(const std::array<std::int8_t, 16>& values, const std::uint8_t* packed, float scale,
               float* out) {
  std::array<std::uint8_t, kGroup> places;
  nibbles(packed, places.data());
  for (std::size_t i = 0; i < kGroup; ++i) out[i] = scale * static_cast<float>(values[places[i]]);
}

void block_iq4_nl(const std::uint8_t* block, float* out) {
  looked_up(kIq4Levels, block + 2, f16_at(block), out);
}

// Groups of 32 with 6-bit scales. The high two bits of all scales come first, then the low four bits in
// nibbles.
void block_iq4_xs(const std::uint8_t* block, float* out) {
  const float scale = f16_at(block);
  for (std::size_t group = 0; group < 8; ++group) {
    const int low = block[4 + group / 2] >> (group % 2 * 4) & 15;
    const int high = block[2 + group / 4] >> (group % 4 * 2) & 3;
    looked_up(kIq4Levels, block + 8 + group * 16, scale * static_cast<float>((low | high << 4) - 32),
              out + group * kGroup);
  }
}

// The scale is a byte e, for 2^(e - 127). It is halved, because the table contains twice the format's values.
void block_mxfp4(const std::uint8_t* block, float* out) {
  looked_up(kMxfp4Levels, block + 1, std::ldexp(1.0F, block[0] - 128), out);
}

// Four groups of 16 with scales of FP8 without signs, of which the last one counts as zero. They are halved,
// because the table contains twice the format's values.
void block_nvfp4(const std::uint8_t* block, float* out) {
  for (std::size_t group = 0; group < 4; ++group) {
    const std::uint32_t bits = block[group] == 127 ? 0 : block[group] & 127U;
    const float scale = std::bit_cast<float>(bits << 20) * kernels::kHalfOfE4m3;
    for (std::size_t i = 0; i < 16; ++i) {
      const int byte = block[4 + group * 8 + i % 8];
      const auto place = static_cast<std::size_t>(i < 8 ? byte & 15 : byte >> 4);
      out[group * 16 + i] = scale * static_cast<float>(kMxfp4Levels[place]);
    }
  }
}

// 16 groups of 16 with 4-bit scales and offsets. Each 32 bytes of `packed` contain 128 elements: byte l has
// elements l, l + 32, l + 64 and l + 96.
void block_q2_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* const scales = block;
  const std::uint8_t* const packed = block + 16;
  const float scale = f16_at(block + 80);
  const float offset = f16_at(block + 82);
  for (std::size_t group = 0; group < 16; ++group) {
    const std::uint8_t* const from = packed + group / 8 * 32 + group % 2 * 16;
    const auto shift = static_cast<int>(group % 8 / 2 * 2);
    const float group_scale = scale * static_cast<float>(scales[group] & 15);
    const float group_offset = offset * static_cast<float>(scales[group] >> 4);
    for (std::size_t i = 0; i < 16; ++i)
      out[group * 16 + i] = group_scale * static_cast<float>(from[i] >> shift & 3) - group_offset;
  }
}

// 16 groups of 16 with 6-bit scales. The low four bits are in nibbles, the high two bits in the last four
// bytes.
int scale_of_q3_k(const std::uint8_t* scales, std::size_t group) {
  const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
  const int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

void block_q3_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* const third_bits = block;
  const std::uint8_t* const packed = block + 32;
  const std::uint8_t* const scales = block + 96;
  const float scale = f16_at(block + 108);
  for (std::size_t group = 0; group < 16; ++group) {
    const std::uint8_t* const from = packed + group / 8 * 32 + group % 2 * 16;
    const std::uint8_t* const third = third_bits + group % 2 * 16;
    const auto shift = static_cast<int>(group % 8 / 2 * 2);
    const auto bit = static_cast<int>(group / 2);
    const float group_scale = scale * static_cast<float>(scale_of_q3_k(scales, group));
    for (std::size_t i = 0; i < 16; ++i) {
      const int value = (from[i] >> shift & 3) + (third[i] >> bit & 1) * 4 - 4;
      out[group * 16 + i] = group_scale * static_cast<float>(value);
    }
  }
}

// The 6-bit scale and offset of a group of 32. The last four groups have their high bits in bytes of the
// first four groups, which use only six bits.
struct ScaleAndOffset {
  int scale;
  int offset;
};

ScaleAndOffset scale_of_q4_k(const std::uint8_t* packed, std::size_t group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  return {(packed[group + 4] & 15) | packed[group - 4] >> 6 << 4,
          packed[group + 4] >> 4 | packed[group] >> 6 << 4};
}

// Eight groups of 32. Two groups share 32 bytes; the first has the low halves. `value(group, i)` returns an
// element.
template <class Value>
void groups_of_q4_k(const std::uint8_t* block, float* out, Value value) {
  const float scale = f16_at(block);
  const float offset = f16_at(block + 2);
  for (std::size_t group = 0; group < 8; ++group) {
    const ScaleAndOffset of_group = scale_of_q4_k(block + 4, group);
    const float group_scale = scale * static_cast<float>(of_group.scale);
    const float group_offset = offset * static_cast<float>(of_group.offset);
    for (std::size_t i = 0; i < 32; ++i)
      out[group * 32 + i] = group_scale * static_cast<float>(value(group, i)) - group_offset;
  }
}

void block_q4_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* const packed = block + 16;
  groups_of_q4_k(block, out, [packed](std::size_t group, std::size_t i) {
    return packed[group / 2 * 32 + i] >> (group % 2 * 4) & 15;
  });
}

void block_q5_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* const fifth = block + 16;
  const std::uint8_t* const packed = block + 48;
  groups_of_q4_k(block, out, [packed, fifth](std::size_t group, std::size_t i) {
    return (packed[group / 2 * 32 + i] >> (group % 2 * 4) & 15) | (fifth[i] >> group & 1) << 4;
  });
}

// Two halves of 128 elements, each with four lots of 32. Each half stores its low four bits in 64 bytes, and
// its high two bits in 32 bytes.
void block_q6_k(const std::uint8_t* block, float* out) {
  const std::uint8_t* const low_bits = block;
  const std::uint8_t* const high_bits = block + 128;
  const std::uint8_t* const scales = block + 192;
  const float scale = f16_at(block + 208);
  for (std::size_t lot = 0; lot < 8; ++lot) {
    const std::size_t half = lot / 4;
    const std::uint8_t* const low = low_bits + half * 64 + lot % 2 * 32;
    const std::uint8_t* const high = high_bits + half * 32;
    const auto low_shift = static_cast<int>(lot % 4 / 2 * 4);
    const auto high_shift = static_cast<int>(lot % 4 * 2);
    for (std::size_t i = 0; i < 32; ++i) {
      const int value = ((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32;
      const auto group_scale = static_cast<std::int8_t>(scales[lot * 2 + i / 16]);
      out[lot * 32 + i] = scale * static_cast<float>(group_scale) * static_cast<float>(value);
    }
  }
}

void block_tq2_0(const std::uint8_t* block, float* out) {
  const float scale = f16_at(block + 64);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const int value = block[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    out[i] = scale * static_cast<float>(value - 1);
  }
}

// Types with codes: decodes the strings that panels store. Products of scales and elements are exact.
template <const kernels::QuantFormat& kFormat, CodesReader kRead>
void block_of_codes(const std::uint8_t* block, float* out) {
  constexpr std::size_t kString = 64;
  std::array<std::uint8_t, kSuper> strings;
  std::uint16_t d = 0;
  kRead(block, strings.data(), &d);
  for (std::size_t i = 0; i < kSuper; i += kString) {
    const kernels::CodeString string(kFormat, [&](std::size_t index) { return strings[i + index]; });
    for (std::size_t column = 0; column < kString; column += 4) {
      const float scale = float_from_f16(d) * string.factor(column / kFormat.group);
      const std::uint32_t elements = string.elements(column / 4);
      for (std::size_t j = 0; j < 4; ++j)
        *out++ = scale * static_cast<float>(static_cast<int>(elements >> (8 * j) & 255) - 128);
    }
  }
}

using BlockFunction = void (*)(const std::uint8_t* block, float* out);
using IntegersFunction = void (*)(const std::uint8_t* block, std::int8_t* out);

// A type that is stored in blocks.
struct Format {
  std::string_view name;
  BlockFunction block;
  IntegersFunction integers = nullptr;  // only for types with groups
};

constexpr std::array kFormats = {
    Format{"Q8_0", scaled_group<integers_q8_0>, integers_q8_0},
    Format{"Q4_0", scaled_group<integers_q4_0>, integers_q4_0},
    Format{"Q5_0", scaled_group<integers_q5_0>},
    Format{"Q4_1", block_q4_1},
    Format{"Q5_1", block_q5_1},
    Format{"Q2_K", block_q2_k},
    Format{"Q3_K", block_q3_k},
    Format{"Q4_K", block_q4_k},
    Format{"Q5_K", block_q5_k},
    Format{"Q6_K", block_q6_k},
    Format{"IQ4_NL", block_iq4_nl},
    Format{"IQ4_XS", block_iq4_xs},
    Format{"MXFP4", block_mxfp4},
    Format{"IQ2_XXS", block_of_codes<kernels::kIq2Xxs, read_iq2_xxs>},
    Format{"IQ2_XS", block_of_codes<kernels::kIq2Xs, read_iq2_xs>},
    Format{"IQ2_S", block_of_codes<kernels::kIq2S, read_iq2_s>},
    Format{"IQ3_XXS", block_of_codes<kernels::kIq3Xxs, read_iq3_xxs>},
    Format{"IQ3_S", block_of_codes<kernels::kIq3S, read_iq3_s>},
    Format{"IQ1_S", block_of_codes<kernels::kIq1S, read_iq1_s>},
    Format{"IQ1_M", block_of_codes<kernels::kIq1M, read_iq1_m>},
    Format{"TQ1_0", block_of_codes<kernels::kTq10, read_tq1_0>},
    Format{"TQ2_0", block_tq2_0},
    Format{"NVFP4", block_nvfp4},
};

const Format* find_format(const GgufType& type) {
  for (const Format& format : kFormats) {
    if (format.name == type.name) return &format;
  }
  return nullptr;
}

}  // namespace

void dequantize(const GgufType& type, const std::byte* row, Range columns, float* out) {
  if (const std::optional<DType> plain = plain_type(type))
    return widen(*plain, row + columns.begin * size_of(*plain), columns.size(), out);
  if (is_encoded_row(type)) return dequantize_encoded_row(type, row, columns, out);
  const Format* const format = find_format(type);
  assert(format != nullptr);
  const std::size_t width = type.block_elements;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(row);
  std::array<float, kSuper> cut;
  for (std::size_t first = columns.begin / width * width; first < columns.end; first += width) {
    const std::uint8_t* const block = bytes + first / width * type.block_bytes;
    if (first >= columns.begin && first + width <= columns.end) {
      format->block(block, out + (first - columns.begin));
      continue;
    }
    format->block(block, cut.data());
    const std::size_t begin = std::max(first, columns.begin);
    const std::size_t end = std::min(first + width, columns.end);
    std::copy(cut.begin() + static_cast<std::ptrdiff_t>(begin - first),
              cut.begin() + static_cast<std::ptrdiff_t>(end - first), out + (begin - columns.begin));
  }
}

bool has_groups(const GgufType& type) {
  const Format* const format = find_format(type);
  return format != nullptr && format->integers != nullptr;
}

void read_groups(const GgufType& type, const std::byte* row, Range columns, std::int8_t* elements,
                 std::uint16_t* scales) {
  const Format* const format = find_format(type);
  assert(format != nullptr && format->integers != nullptr);
  assert(columns.begin % kGroup == 0 && columns.end % kGroup == 0);
  const auto* block = reinterpret_cast<const std::uint8_t*>(row) + columns.begin / kGroup * type.block_bytes;
  for (std::size_t group = 0; group < columns.size() / kGroup; ++group, block += type.block_bytes) {
    scales[group] = f16_bits(block);
    format->integers(block, elements + group * kGroup);
  }
}

}  // namespace tp
