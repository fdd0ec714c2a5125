#include "model/weights/gguf/gguf_quantized.h"

#include "model/weights/gguf/gguf_codes.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <string_view>

namespace tp {
namespace {

using kernels::QuantizedRows;

constexpr std::size_t kSuper = QuantizedRows::kColumns;

std::uint8_t byte_of(unsigned value) { return static_cast<std::uint8_t>(value); }

// Destination of 256 elements; see QuantizedRows.
struct Out {
  std::uint8_t* elements;
  std::uint8_t* scales;
  std::uint8_t* offsets;
  std::uint16_t* halves;
};

void copy_halves(const std::uint8_t* from, std::size_t count, std::uint16_t* to) {
  std::memcpy(to, from, count * sizeof *to);
}

// Splits bytes: low halves are elements, high halves are the elements `apart` positions further.
void split_bytes(const std::uint8_t* from, std::size_t count, std::size_t apart, std::uint8_t* to) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = from[i] & 15;
    to[i + apart] = byte_of(from[i] >> 4);
  }
}

constexpr std::uint64_t kOfEachByte = 0x0101010101010101;

// Adds to eight elements: bits of eight bytes, which `mask` selects in every byte.
void add_to_eight(std::uint64_t bits, std::uint64_t mask, unsigned place, std::uint8_t* elements) {
  std::uint64_t eight = 0;
  std::memcpy(&eight, elements, sizeof eight);
  eight |= (bits & mask * kOfEachByte) << place;
  std::memcpy(elements, &eight, sizeof eight);
}

// Adds to 32 elements, at bit `place`, the bits of 32 bytes that begin at bit `shift`.
void add_bits(const std::uint8_t* from, unsigned shift, std::uint64_t mask, unsigned place,
              std::uint8_t* elements) {
  for (std::size_t i = 0; i < 32; i += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, from + i, sizeof eight);
    add_to_eight(eight >> shift, mask, place, elements + i);
  }
}

// Each of the eight bits, in the lowest bit of a byte.
std::uint64_t bit_per_byte(std::uint64_t bits) {
  const std::uint64_t one_each = bits * kOfEachByte & 0x8040201008040201;
  return (one_each + 127 * kOfEachByte) >> 7;  // the sum has the highest bit where the byte is not 0
}

// A block of 32 of a simple type: kHalves f16 numbers, 32 fifth bits (if any), 16 bytes of elements.
template <std::size_t kHalves, bool kHasFifthBits>
void simple_block(const std::uint8_t* block, std::size_t index, const Out& out) {
  copy_halves(block, kHalves, out.halves + index * kHalves);
  block += 2 * kHalves;
  std::uint8_t* const elements = out.elements + index * 32;
  split_bytes(block + (kHasFifthBits ? 4 : 0), 16, 16, elements);
  if constexpr (kHasFifthBits) {
    for (std::size_t i = 0; i < 4; ++i) add_to_eight(bit_per_byte(block[i]), 1, 4, elements + i * 8);
  }
}

void mxfp4_block(const std::uint8_t* block, std::size_t index, const Out& out) {
  out.scales[index] = block[0];
  split_bytes(block + 1, 16, 16, out.elements + index * 32);
}

// 64 elements in groups of 16, with four scales: FP8 without signs, of which the last one counts as zero.
void nvfp4_block(const std::uint8_t* block, std::size_t index, const Out& out) {
  const float one = 1.0F;
  std::memcpy(out.halves, &one, sizeof one);
  for (std::size_t group = 0; group < 4; ++group) {
    out.scales[index * 4 + group] = block[group] == 127 ? 0 : block[group] & 127;
    split_bytes(block + 4 + group * 8, 8, 8, out.elements + index * 64 + group * 16);
  }
}

// Reads six-bit scales and offsets of eight groups from 12 bytes. The last four groups have their high bits
// above the scales and offsets of the first four.
void six_bit_pairs(const std::uint8_t* packed, const Out& out) {
  for (std::size_t i = 0; i < 4; ++i) {
    out.scales[i] = packed[i] & 63;
    out.offsets[i] = packed[i + 4] & 63;
    out.scales[i + 4] = byte_of((packed[i + 8] & 15U) | packed[i] >> 6 << 4);
    out.offsets[i + 4] = byte_of(packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4);
  }
}

void q4_k_block(const std::uint8_t* block, std::size_t, const Out& out) {
  copy_halves(block, 2, out.halves);
  six_bit_pairs(block + 4, out);
  for (std::size_t i = 0; i < 4; ++i) split_bytes(block + 16 + i * 32, 32, 32, out.elements + i * 64);
}

void q5_k_block(const std::uint8_t* block, std::size_t, const Out& out) {
  copy_halves(block, 2, out.halves);
  six_bit_pairs(block + 4, out);
  for (std::size_t i = 0; i < 4; ++i) split_bytes(block + 48 + i * 32, 32, 32, out.elements + i * 64);
  for (unsigned group = 0; group < 8; ++group) add_bits(block + 16, group, 1, 4, out.elements + group * 32);
}

// Each half of 128 elements has its low four bits in 64 bytes, and its high two bits in 32 bytes.
void q6_k_block(const std::uint8_t* block, std::size_t, const Out& out) {
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint8_t* const elements = out.elements + half * 128;
    split_bytes(block + half * 64, 64, 64, elements);
    const std::uint8_t* const high = block + 128 + half * 32;
    for (unsigned group = 0; group < 4; ++group) add_bits(high, group * 2, 3, 4, elements + group * 32);
  }
  std::memcpy(out.scales, block + 192, 16);
  copy_halves(block + 208, 1, out.halves);
}

// Two bits each of 256 elements in 64 bytes, in the layout of Q2_K and Q3_K.
void two_bits(const std::uint8_t* packed, std::uint8_t* elements) {
  std::memset(elements, 0, kSuper);
  for (unsigned group = 0; group < 8; ++group)
    add_bits(packed + group / 4 * 32, group % 4 * 2, 3, 0, elements + group * 32);
}

void q3_k_block(const std::uint8_t* block, std::size_t, const Out& out) {
  two_bits(block + 32, out.elements);
  for (unsigned group = 0; group < 8; ++group) add_bits(block, group, 1, 2, out.elements + group * 32);
  const std::uint8_t* const packed = block + 96;
  for (std::size_t i = 0; i < 8; ++i) {
    out.scales[i] = byte_of((packed[i] & 15U) | (packed[8 + i % 4] >> (i / 4 * 2) & 3U) << 4);
    out.scales[i + 8] = byte_of(packed[i] >> 4 | (packed[8 + i % 4] >> (i / 4 * 2 + 4) & 3U) << 4);
  }
  copy_halves(block + 108, 1, out.halves);
}

void q2_k_block(const std::uint8_t* block, std::size_t, const Out& out) {
  std::memcpy(out.scales, block, 16);
  two_bits(block + 16, out.elements);
  copy_halves(block + 80, 2, out.halves);
}

// A block has an f16, the high two bits of eight scales, their low four bits, and 128 bytes of elements.
void iq4_xs_block(const std::uint8_t* block, std::size_t, const Out& out) {
  copy_halves(block, 1, out.halves);
  for (std::size_t i = 0; i < 8; ++i) {
    const unsigned low = block[4 + i / 2] >> (i % 2 * 4) & 15U;
    const unsigned high = block[2 + i / 4] >> (i % 4 * 2) & 3U;
    out.scales[i] = byte_of((low | high << 4) - 32);  // a signed byte
    split_bytes(block + 8 + i * 16, 16, 16, out.elements + i * 32);
  }
}

void tq2_0_block(const std::uint8_t* block, std::size_t, const Out& out) {
  two_bits(block, out.elements);
  copy_halves(block + 64, 1, out.halves);
}

template <CodesReader kRead>
void codes_block(const std::uint8_t* block, std::size_t, const Out& out) {
  kRead(block, out.elements, out.halves);
}

struct Reader {
  std::string_view name;
  WeightType type;
  void (*block)(const std::uint8_t* block, std::size_t index, const Out& out);
};

constexpr std::array kReaders = {
    Reader{"Q4_K", WeightType::q4_k, q4_k_block},
    Reader{"Q5_K", WeightType::q5_k, q5_k_block},
    Reader{"Q6_K", WeightType::q6_k, q6_k_block},
    Reader{"Q3_K", WeightType::q3_k, q3_k_block},
    Reader{"Q2_K", WeightType::q2_k, q2_k_block},
    Reader{"Q4_1", WeightType::q4_1, simple_block<2, false>},
    Reader{"Q5_0", WeightType::q5_0, simple_block<1, true>},
    Reader{"Q5_1", WeightType::q5_1, simple_block<2, true>},
    Reader{"IQ4_NL", WeightType::iq4_nl, simple_block<1, false>},
    Reader{"IQ4_XS", WeightType::iq4_xs, iq4_xs_block},
    Reader{"MXFP4", WeightType::mxfp4, mxfp4_block},
    Reader{"IQ2_XXS", WeightType::iq2_xxs, codes_block<read_iq2_xxs>},
    Reader{"IQ2_XS", WeightType::iq2_xs, codes_block<read_iq2_xs>},
    Reader{"IQ2_S", WeightType::iq2_s, codes_block<read_iq2_s>},
    Reader{"IQ3_XXS", WeightType::iq3_xxs, codes_block<read_iq3_xxs>},
    Reader{"IQ3_S", WeightType::iq3_s, codes_block<read_iq3_s>},
    Reader{"IQ1_S", WeightType::iq1_s, codes_block<read_iq1_s>},
    Reader{"IQ1_M", WeightType::iq1_m, codes_block<read_iq1_m>},
    Reader{"TQ1_0", WeightType::tq1_0, codes_block<read_tq1_0>},
    Reader{"TQ2_0", WeightType::tq2_0, tq2_0_block},
    Reader{"NVFP4", WeightType::nvfp4, nvfp4_block},
};

const Reader* find_reader(const GgufType& type) {
  const auto found = std::ranges::find(kReaders, type.name, &Reader::name);
  return found == kReaders.end() ? nullptr : found;
}

}  // namespace

std::optional<WeightType> quantized_type(const GgufType& type) {
  const Reader* const reader = find_reader(type);
  if (reader == nullptr || !type.readable) return std::nullopt;
  return reader->type;
}

void read_quantized(const GgufType& type, const std::byte* row, std::size_t row_elements, Range columns,
                    const QuantizedRows& out, std::size_t index) {
  const Reader* const reader = find_reader(type);
  assert(reader != nullptr);
  const kernels::QuantFormat& format = *kernels::quant_format(reader->type);
  const std::size_t groups = QuantizedRows::groups(format);
  const std::size_t halves = QuantizedRows::halves_of(format);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(row);
  const std::size_t first = columns.begin / kSuper;
  assert((columns.end + kSuper - 1) / kSuper - first <= out.super_blocks || columns.size() == 0);
  for (std::size_t i = 0; i < out.super_blocks; ++i) {
    const std::size_t place = index * out.super_blocks + i;
    const Out to{out.elements + place * kSuper, out.scales + place * groups, out.offsets + place * groups,
                 out.halves + place * halves};
    const std::size_t begin = (first + i) * kSuper;
    const std::size_t size = std::min(kSuper, row_elements - std::min(begin, row_elements));
    if (size < kSuper) {
      std::memset(to.elements, 0, kSuper);
      std::memset(to.scales, 0, groups);
      std::memset(to.offsets, 0, groups);
      std::memset(to.halves, 0, halves * sizeof *to.halves);
    }
    for (std::size_t block = 0; block < size / type.block_elements; ++block)
      reader->block(bytes + (begin / type.block_elements + block) * type.block_bytes, block, to);
  }
}

}  // namespace tp
