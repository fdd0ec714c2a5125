#include "model/weights/gguf/gguf_codes.h"

#include "model/kernels/code_string.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace tp {
namespace {

using kernels::GridFormat;

constexpr std::size_t kSuper = 256;
constexpr std::size_t kString = 64;  // columns of a string, and bytes from one string to the next
constexpr std::size_t kLot = 8;      // columns that share a byte of signs

std::uint8_t byte_of(std::uint64_t value) { return static_cast<std::uint8_t>(value); }

template <class Number>
Number number_at(const std::uint8_t* from) {
  Number number = 0;
  std::memcpy(&number, from, sizeof number);
  return number;
}

// The numbers of a super-block of a type with a grid.
struct GridBlock {
  std::array<std::uint16_t, kSuper / 4> indices;
  std::array<std::uint8_t, kSuper / kLot> signs;  // a bit per element, or the shift of a lot
  std::array<std::uint8_t, kSuper / 16> scales;   // with the shift above, if groups have shifts
};

// Exchanges bit j of byte i with bit i of byte j. Source: Warren, Hacker's Delight, transpose8.
std::uint64_t transposed_bits(std::uint64_t x) {
  const auto swap = [&x](int distance, std::uint64_t mask) {
    const std::uint64_t changed = (x ^ x >> distance) & mask;
    x ^= changed ^ changed << distance;
  };
  swap(7, 0x00aa00aa00aa00aaU);
  swap(14, 0x0000cccc0000ccccU);
  swap(28, 0x00000000f0f0f0f0U);
  return x;
}

// Joins numbers of `bits` bits, the first one in the lowest bits.
template <class Number>
std::uint32_t joined(const Number* numbers, std::size_t count, std::size_t bits, int shift) {
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < count; ++i)
    all |= (static_cast<std::uint32_t>(numbers[i]) >> shift & ((1U << bits) - 1)) << (i * bits);
  return all;
}

void write_string(const kernels::QuantFormat& format, const GridBlock& block, std::size_t index,
                  std::uint8_t* string) {
  const GridFormat& grid = *format.grid;
  const std::uint64_t signs = transposed_bits(number_at<std::uint64_t>(block.signs.data() + index * kLot));
  std::memcpy(string, &signs, grid.sign_bytes());
  const std::uint16_t* const indices = block.indices.data() + index * grid.indices();
  const std::uint32_t high = joined(indices, grid.indices(), grid.high_bits, 8);
  std::memcpy(string + grid.sign_bytes(), &high, grid.high_bytes());
  for (std::size_t i = 0; i < grid.indices(); ++i) string[grid.index_place() + i] = byte_of(indices[i]);
  const std::size_t groups = format.groups();
  const std::uint32_t scales = joined(block.scales.data() + index * groups, groups, grid.scale_bits, 0);
  std::memcpy(string + grid.scale_place(), &scales, (grid.scale_bits * groups + 7) / 8);
}

void write_strings(const kernels::QuantFormat& format, const GridBlock& block, std::uint8_t* strings) {
  for (std::size_t i = 0; i < kSuper / kString; ++i) write_string(format, block, i, strings + i * kString);
}

// A word of IQ2_XXS and IQ3_XXS: four times seven signs, and the scale of a group of 32.
void split_word(std::uint32_t word, std::size_t group, GridBlock& out) {
  for (std::size_t i = 0; i < 4; ++i) out.signs[group * 4 + i] = word >> (7 * i) & 127;
  out.scales[group] = byte_of(word >> 28);
}

void split_half_bytes(const std::uint8_t* from, std::size_t count, GridBlock& out) {
  for (std::size_t i = 0; i < count; ++i) out.scales[i] = from[i / 2] >> (i % 2 * 4) & 15;
}

}  // namespace

void read_iq2_xxs(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d) {
  GridBlock out{};
  for (std::size_t group = 0; group < 8; ++group) {
    const std::uint8_t* const from = block + 2 + group * 8;
    for (std::size_t i = 0; i < 4; ++i) out.indices[group * 4 + i] = from[i];
    split_word(number_at<std::uint32_t>(from + 4), group, out);
  }
  *d = number_at<std::uint16_t>(block);
  write_strings(kernels::kIq2Xxs, out, strings);
}

void read_iq2_xs(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d) {
  GridBlock out{};
  for (std::size_t i = 0; i < 32; ++i) {
    const auto both = number_at<std::uint16_t>(block + 2 + i * 2);
    out.indices[i] = both & 511;
    out.signs[i] = byte_of(both >> 9);
  }
  split_half_bytes(block + 66, 16, out);
  *d = number_at<std::uint16_t>(block);
  write_strings(kernels::kIq2Xs, out, strings);
}

void read_iq2_s(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d) {
  GridBlock out{};
  for (std::size_t i = 0; i < 32; ++i) {
    const unsigned high = block[66 + i / 4] >> (i % 4 * 2) & 3;
    out.indices[i] = static_cast<std::uint16_t>(block[2 + i] | high << 8);
    out.signs[i] = block[34 + i];
  }
  split_half_bytes(block + 74, 16, out);
  *d = number_at<std::uint16_t>(block);
  write_strings(kernels::kIq2S, out, strings);
}

void read_iq3_xxs(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d) {
  GridBlock out{};
  for (std::size_t i = 0; i < 64; ++i) out.indices[i] = block[2 + i];
  for (std::size_t group = 0; group < 8; ++group)
    split_word(number_at<std::uint32_t>(block + 66 + group * 4), group, out);
  *d = number_at<std::uint16_t>(block);
  write_strings(kernels::kIq3Xxs, out, strings);
}

void read_iq3_s(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d) {
  GridBlock out{};
  for (std::size_t i = 0; i < 64; ++i) {
    const unsigned high = block[66 + i / 8] >> (i % 8) & 1;
    out.indices[i] = static_cast<std::uint16_t>(block[2 + i] | high << 8);
  }
  std::memcpy(out.signs.data(), block + 74, out.signs.size());
  split_half_bytes(block + 106, 8, out);
  *d = number_at<std::uint16_t>(block);
  write_strings(kernels::kIq3S, out, strings);
}

void read_iq1_s(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d) {
  GridBlock out{};
  for (std::size_t i = 0; i < 32; ++i) {
    const auto of_group = number_at<std::uint16_t>(block + 34 + i / 4 * 2);
    const unsigned high = of_group >> (i % 4 * 3) & 7;
    out.indices[i] = static_cast<std::uint16_t>(block[2 + i] | high << 8);
    out.scales[i / 4] = byte_of(of_group >> 12);
  }
  *d = number_at<std::uint16_t>(block);
  write_strings(kernels::kIq1S, out, strings);
}

// The four high bits of each word of scales are a part of d.
void read_iq1_m(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d) {
  GridBlock out{};
  for (std::size_t i = 0; i < 32; ++i) {
    const unsigned high = block[32 + i / 2] >> (i % 2 * 4) & 15;
    out.indices[i] = static_cast<std::uint16_t>(block[i] | (high & 7) << 8);
    out.signs[i] = byte_of(high >> 3);
  }
  unsigned half = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const unsigned word = number_at<std::uint16_t>(block + 48 + i * 2);
    for (std::size_t j = 0; j < 4; ++j) out.scales[i * 4 + j] = byte_of(word >> (3 * j) & 7);
    half |= word >> 12 << (4 * i);
  }
  *d = static_cast<std::uint16_t>(half);
  write_strings(kernels::kIq1M, out, strings);
}

namespace {

// Writes the digits of base 3 of `count` bytes: the first digit of each byte, then the second, ...
std::uint8_t* write_digits(const std::uint8_t* bytes, std::size_t count, std::size_t digits,
                           std::uint8_t* out) {
  for (std::size_t i = 0; i < digits * count; ++i) {
    std::uint8_t byte = bytes[i % count];
    for (std::size_t n = 0; n < i / count; ++n) byte = byte_of(byte * 3U);
    out[i] = byte_of(byte * 3U >> 8);
  }
  return out + digits * count;
}

// The byte of up to five digits, which are `apart` from each other.
std::uint8_t byte_of_digits(const std::uint8_t* digits, std::size_t count, std::size_t apart) {
  unsigned number = 0;
  for (std::size_t i = 0; i < 5; ++i) number = number * 3 + (i < count ? digits[i * apart] : 0);
  return byte_of((number * 256 + 242) / 243);  // rounded up, so that reading can round down
}

}  // namespace

void read_tq1_0(const std::uint8_t* block, std::uint8_t* strings, std::uint16_t* d) {
  std::array<std::uint8_t, kSuper> digits;
  std::uint8_t* end = write_digits(block, 32, 5, digits.data());
  end = write_digits(block + 32, 16, 5, end);
  write_digits(block + 48, 4, 4, end);
  for (std::size_t i = 0; i < kSuper / kString; ++i) {
    const std::uint8_t* const from = digits.data() + i * kString;
    std::uint8_t* const string = strings + i * kString;
    for (std::size_t j = 0; j + 1 < kernels::kTritBytes; ++j)
      string[j] = byte_of_digits(from + j / 4 * 20 + j % 4, 5, 4);
    string[kernels::kTritBytes - 1] = byte_of_digits(from + 60, 4, 1);
  }
  *d = number_at<std::uint16_t>(block + 52);
}

}  // namespace tp
