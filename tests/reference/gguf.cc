#include "tests/reference/gguf.h"

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

// Element i of 32: the first 16 in the low halves of 16 bytes, the others in the high halves.
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

// With the element itself, which Q4_K and Q5_K have in common but for its fifth bit.
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

// What 4 bits stand for in IQ4_NL and IQ4_XS.
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

// E2M1: a sign, an exponent of two bits with bias 1 and a mantissa of one, times 2^(the block's byte - 127).
// Source: Open Compute Project, Microscaling Formats. Byte 255 is no number there, and 2^128 would be none of
// float32: ggml takes half of it. It has no negative zero either.
float mxfp4(const std::uint8_t* block, std::size_t i) {
  const int bits = nibble(block + 1, i);
  const int exponent = bits / 2 % 4;
  const int mantissa = bits % 2;
  const double magnitude = exponent == 0 ? 0.5 * mantissa : std::ldexp(1 + 0.5 * mantissa, exponent - 1);
  return static_cast<float>(std::ldexp(bits > 8 ? -magnitude : magnitude, block[0] - 127));
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
  throw std::logic_error("no such type");
}

}  // namespace tp::reference
