#include "tests/reference/gguf.h"

#include "model/kernels/simd/pack/grid_entries.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace tp::reference {
namespace {

// A half-precision number by its definition.
float half(const std::uint8_t* from) {
  const int bits = from[0] + 256 * from[1];
  const int exponent = bits / 1024 % 32;
  const int mantissa = bits % 1024;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(bits >= 32768 ? -magnitude : magnitude);
}

int bit(const std::uint8_t* from, std::size_t index) { return from[index / 8] >> (index % 8) & 1; }

// Returns element i of 32: the first 16 are in the low halves of 16 bytes, the others in the high halves.
int nibble(const std::uint8_t* from, std::size_t i) { return i < 16 ? from[i] % 16 : from[i - 16] / 16; }

float f(int value) { return static_cast<float>(value); }

float q2_k(const std::uint8_t* block, std::size_t i) {
  const int scales = block[i / 16];
  const int q = block[16 + i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
  return half(block + 80) * f(scales % 16) * f(q) - half(block + 82) * f(scales / 16);
}

float q3_k(const std::uint8_t* block, std::size_t i) {
  const std::size_t group = i / 16;
  const std::uint8_t* scales = block + 96;
  const int low = group < 8 ? scales[group] % 16 : scales[group - 8] / 16;
  const int high = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
  const int low_bits = block[32 + i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
  const int high_bit = block[i % 32] >> (i / 32) & 1;
  return half(block + 108) * f(low + 16 * high - 32) * f(low_bits + 4 * high_bit - 4);
}

// `element` is given, because Q4_K and Q5_K differ only in its fifth bit.
float q4_or_5_k(const std::uint8_t* block, std::size_t i, int q) {
  const std::size_t group = i / 32;
  const std::uint8_t* packed = block + 4;
  int scale = packed[group % 4 + (group < 4 ? 0 : 8)];
  int offset = packed[group % 4 + (group < 4 ? 4 : 8)];
  if (group < 4) {
    scale %= 64;
    offset %= 64;
  } else {
    scale = scale % 16 + 16 * (packed[group % 4] / 64);
    offset = offset / 16 + 16 * (packed[group % 4 + 4] / 64);
  }
  return half(block) * f(scale) * f(q) - half(block + 2) * f(offset);
}

int half_byte(const std::uint8_t* from, std::size_t i) {
  const int byte = from[i / 64 * 32 + i % 32];
  return i / 32 % 2 == 0 ? byte % 16 : byte / 16;
}

float q6_k(const std::uint8_t* block, std::size_t i) {
  const std::size_t in_half = i % 128;
  const int low_byte = block[i / 128 * 64 + in_half % 64];
  const int low = in_half < 64 ? low_byte % 16 : low_byte / 16;
  const int high = block[128 + i / 128 * 32 + in_half % 32] >> (2 * (in_half / 32)) & 3;
  const int scale = block[192 + i / 16];
  return half(block + 208) * f(scale < 128 ? scale : scale - 256) * f(low + 16 * high - 32);
}

// Returns the value of a 4-bit code in IQ4_NL and IQ4_XS.
float iq4(int place) {
  constexpr int kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return f(kValues[place]);
}

float iq4_xs(const std::uint8_t* block, std::size_t i) {
  const std::size_t group = i / 32;
  const int low = group % 2 == 0 ? block[4 + group / 2] % 16 : block[4 + group / 2] / 16;
  const int high = bit(block + 2, 2 * group) + 2 * bit(block + 2, 2 * group + 1);
  return half(block) * f(low + 16 * high - 32) * iq4(nibble(block + 8 + group * 16, i % 32));
}

// E2M1: a sign, an exponent of two bits with bias 1 and a mantissa of one bit, times 2^(the block's byte -
// 127). Source: Open Compute Project, Microscaling Formats. Byte 255 is NaN there, and 2^128 exceeds float32,
// so ggml uses half of it. ggml has no negative zero either.
float mxfp4(const std::uint8_t* block, std::size_t i) {
  const int bits = nibble(block + 1, i);
  const int exponent = bits / 2 % 4;
  const int mantissa = bits % 2;
  const double magnitude = exponent == 0 ? 0.5 * mantissa : std::ldexp(1 + 0.5 * mantissa, exponent - 1);
  return static_cast<float>(std::ldexp(bits > 8 ? -magnitude : magnitude, block[0] - 127));
}

std::uint32_t word(const std::uint8_t* from) {
  return from[0] + (std::uint32_t{from[1]} << 8) + (std::uint32_t{from[2]} << 16) +
         (std::uint32_t{from[3]} << 24);
}

// Returns the sign of element i of eight. Seven signs are stored as bits. The eighth makes the number of
// negative signs even.
float sign_or_parity(std::uint32_t bits, std::size_t i) {
  int ones = 0;
  for (int k = 0; k < 7; ++k) ones += static_cast<int>(bits >> k & 1);
  const bool is_negative = i < 7 ? (bits >> i & 1) == 1 : ones % 2 == 1;
  return is_negative ? -1.0F : 1.0F;
}

float sign_of(std::uint8_t bits, std::size_t i) { return bit(&bits, i) == 1 ? -1.0F : 1.0F; }

// Returns the levels of a grid's row, with two or three bits each.
float iq2_level(unsigned entry, std::size_t i) {
  constexpr int kLevels[] = {8, 25, 43};
  return f(kLevels[entry >> (2 * i) & 3]);
}
float iq3_xxs_level(unsigned entry, std::size_t i) {
  constexpr int kLevels[] = {4, 12, 20, 28, 36, 44, 52, 62};
  return f(kLevels[entry >> (3 * i) & 7]);
}

float iq2_xxs(const std::uint8_t* block, std::size_t i) {
  const std::uint8_t* group = block + 2 + i / 32 * 8;
  const std::uint32_t signs = word(group + 4) >> (i % 32 / 8 * 7) & 127;
  const float scale = half(block) * (0.5F + f(group[7] / 16)) * 0.25F;
  return scale * iq2_level(kernels::kIq2XxsEntries[group[i % 32 / 8]], i % 8) * sign_or_parity(signs, i % 8);
}

float iq2_xs(const std::uint8_t* block, std::size_t i) {
  const std::uint8_t* both = block + 2 + i / 8 * 2;
  const unsigned index = both[0] + 256U * (both[1] % 2U);
  const float scale = half(block) * (0.5F + f(block[66 + i / 32] >> (i % 32 / 16 * 4) & 15)) * 0.25F;
  return scale * iq2_level(kernels::kIq2XsEntries[index], i % 8) * sign_or_parity(both[1] / 2, i % 8);
}

float iq2_s(const std::uint8_t* block, std::size_t i) {
  const unsigned high = block[66 + i / 32] >> (i % 32 / 8 * 2) & 3;
  const float scale = half(block) * (0.5F + f(block[74 + i / 32] >> (i % 32 / 16 * 4) & 15)) * 0.25F;
  return scale * iq2_level(kernels::kIq2SEntries[block[2 + i / 8] + 256U * high], i % 8) *
         sign_of(block[34 + i / 8], i % 8);
}

float iq3_xxs(const std::uint8_t* block, std::size_t i) {
  const std::uint32_t group = word(block + 66 + i / 32 * 4);
  const float scale = half(block) * (0.5F + f(static_cast<int>(group >> 28))) * 0.5F;
  return scale * iq3_xxs_level(kernels::kIq3XxsEntries[block[2 + i / 4]], i % 4) *
         sign_or_parity(group >> (i % 32 / 8 * 7) & 127, i % 8);
}

float iq3_s(const std::uint8_t* block, std::size_t i) {
  const int high = bit(block + 66, i / 4);
  const unsigned entry = kernels::kIq3SEntries[block[2 + i / 4] + 256 * high];
  const float level = f(static_cast<int>(1 + 2 * (entry >> (i % 4 * 3) & 7)));
  const float scale = half(block) * f(1 + 2 * (block[106 + i / 64] >> (i % 64 / 32 * 4) & 15));
  return scale * level * sign_of(block[74 + i / 8], i % 8);
}

// A row of IQ1's grid contains -1, 0 and 1. An eighth is added or subtracted.
float iq1(unsigned index, std::size_t i, int scale, bool is_less, float d) {
  const int level = static_cast<int>(kernels::kIq1Entries[index] >> (2 * i) & 3) - 1;
  return d * f(2 * scale + 1) * (f(level) + (is_less ? -0.125F : 0.125F));
}

float iq1_s(const std::uint8_t* block, std::size_t i) {
  const unsigned group = block[34 + i / 32 * 2] + 256U * block[35 + i / 32 * 2];
  const unsigned high = group >> (i % 32 / 8 * 3) & 7;
  return iq1(block[2 + i / 8] + 256 * high, i % 8, static_cast<int>(group >> 12 & 7), group >= 32768,
             half(block));
}

float iq1_m(const std::uint8_t* block, std::size_t i) {
  const std::uint8_t d[2] = {static_cast<std::uint8_t>(block[49] / 16 + block[51] / 16 * 16),
                             static_cast<std::uint8_t>(block[53] / 16 + block[55] / 16 * 16)};
  const int high = block[32 + i / 16] >> (i % 16 / 8 * 4) & 15;
  const int scales = block[48 + i / 64 * 2] + 256 * block[49 + i / 64 * 2];
  return iq1(static_cast<unsigned>(block[i / 8] + 256 * (high % 8)), i % 8, scales >> (i % 64 / 16 * 3) & 7,
             high >= 8, half(d));
}

// Returns the digit `digit`, counted from 0, of a byte. The byte is a fraction of 256 with digits of base 3.
int ternary_digit(int byte, std::size_t digit) {
  for (std::size_t i = 0; i < digit; ++i) byte = byte * 3 % 256;
  return byte * 3 / 256;
}

float tq1_0(const std::uint8_t* block, std::size_t i) {
  int digit = 0;
  if (i < 160) {
    digit = ternary_digit(block[i % 32], i / 32);
  } else if (i < 240) {
    digit = ternary_digit(block[32 + (i - 160) % 16], (i - 160) / 16);
  } else {
    digit = ternary_digit(block[48 + (i - 240) % 4], (i - 240) / 4);
  }
  return half(block + 52) * f(digit - 1);
}

float tq2_0(const std::uint8_t* block, std::size_t i) {
  return half(block + 64) * f((block[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 1);
}

// E2M1 in groups of 16, times an FP8 number: four exponent bits with bias 7, and three mantissa bits. The
// sign is ignored, and 127 is zero.
float nvfp4(const std::uint8_t* block, std::size_t i) {
  constexpr double kLevels[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const std::uint8_t byte = block[4 + i / 16 * 8 + i % 8];
  const int bits = i % 16 < 8 ? byte % 16 : byte / 16;
  const int scale = block[i / 16] == 127 ? 0 : block[i / 16] % 128;
  const double factor = scale < 8 ? std::ldexp(scale, -9) : std::ldexp(1 + scale % 8 / 8.0, scale / 8 - 7);
  return static_cast<float>(factor * (bits > 8 ? -kLevels[bits - 8] : kLevels[bits % 8]));
}

}  // namespace

float gguf_element(std::string_view type, const std::uint8_t* block, std::size_t i) {
  if (type == "F16") return half(block);
  if (type == "F32" || type == "BF16") {
    float value = 0.0F;  // BF16 is the upper half
    const std::size_t size = type == "F32" ? 4 : 2;
    std::memcpy(reinterpret_cast<std::uint8_t*>(&value) + 4 - size, block, size);
    return value;
  }
  if (type == "Q8_0") return half(block) * f(block[2 + i] < 128 ? block[2 + i] : block[2 + i] - 256);
  if (type == "Q4_0") return half(block) * f(nibble(block + 2, i) - 8);
  if (type == "Q4_1") return half(block) * f(nibble(block + 4, i)) + half(block + 2);
  if (type == "Q5_0") return half(block) * f(nibble(block + 6, i) + 16 * bit(block + 2, i) - 16);
  if (type == "Q5_1") return half(block) * f(nibble(block + 8, i) + 16 * bit(block + 4, i)) + half(block + 2);
  if (type == "Q2_K") return q2_k(block, i);
  if (type == "Q3_K") return q3_k(block, i);
  if (type == "Q4_K") return q4_or_5_k(block, i, half_byte(block + 16, i));
  if (type == "Q5_K")
    return q4_or_5_k(block, i, half_byte(block + 48, i) + 16 * (block[16 + i % 32] >> (i / 32) & 1));
  if (type == "Q6_K") return q6_k(block, i);
  if (type == "IQ4_NL") return half(block) * iq4(nibble(block + 2, i));
  if (type == "IQ4_XS") return iq4_xs(block, i);
  if (type == "MXFP4") return mxfp4(block, i);
  if (type == "IQ2_XXS") return iq2_xxs(block, i);
  if (type == "IQ2_XS") return iq2_xs(block, i);
  if (type == "IQ2_S") return iq2_s(block, i);
  if (type == "IQ3_XXS") return iq3_xxs(block, i);
  if (type == "IQ3_S") return iq3_s(block, i);
  if (type == "IQ1_S") return iq1_s(block, i);
  if (type == "IQ1_M") return iq1_m(block, i);
  if (type == "TQ1_0") return tq1_0(block, i);
  if (type == "TQ2_0") return tq2_0(block, i);
  if (type == "NVFP4") return nvfp4(block, i);
  throw std::logic_error("no such type");
}

}  // namespace tp::reference
