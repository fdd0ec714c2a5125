// Decodes strings of the types with codes, four elements at a time; see GridFormat.
#pragma once

#include "model/kernels/simd/pack/quant_format.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tp::kernels {

// byte_at(index) returns a byte of the string of a row's 64 columns.
template <class ByteAt>
class CodeString {
 public:
  CodeString(const QuantFormat& format, ByteAt byte_at) : format_(format), byte_at_(std::move(byte_at)) {}

  // The elements of columns 4 * quad to 4 * quad + 3, each plus 128.
  std::uint32_t elements(std::size_t quad) const {
    return format_.codebook == Codebook::trits ? trits(quad) : grid_row(quad);
  }
  // A group's factor of the super-block's f16.
  float factor(std::size_t group) const {
    if (format_.codebook == Codebook::trits) return 1.0F;
    const std::uint32_t scale = bits(scale_bit(group), format_.grid->pure_scale_bits());
    return static_cast<float>(2 * scale + 1) * format_.grid->unit;
  }

 private:
  std::uint32_t byte(std::size_t index) const { return byte_at_(index); }
  std::uint32_t bits(std::size_t begin, std::size_t count) const {
    std::uint32_t both = byte(begin / 8);
    if (begin % 8 + count > 8) both |= byte(begin / 8 + 1) << 8;
    return both >> (begin % 8) & ((1U << count) - 1);
  }
  std::size_t scale_bit(std::size_t group) const {
    return 8 * format_.grid->scale_place() + group * format_.grid->scale_bits;
  }

  std::uint32_t grid_row(std::size_t quad) const {
    const GridFormat& grid = *format_.grid;
    const std::size_t i = 4 * quad / grid.width;
    const std::uint32_t high = bits(8 * grid.sign_bytes() + i * grid.high_bits, grid.high_bits);
    const std::size_t entry = byte(grid.index_place() + i) | high << 8;
    const std::uint32_t word = grid.words[entry * (grid.width / 4) + (grid.width == 8 ? quad % 2 : 0)];
    if (!grid.has_signs()) return word - 0x02020202U * shift(quad);
    const std::uint32_t signs = signs_of(quad);
    return (word ^ signs * 255) + signs;
  }

  std::uint32_t shift(std::size_t quad) const {
    if (format_.grid->signs == Signs::shift_of_eight) return byte(0) >> (quad / 2) & 1U;
    return bits(scale_bit(4 * quad / format_.group) + format_.grid->pure_scale_bits(), 1);
  }
  // 1 in each byte whose element is negative.
  std::uint32_t signs_of(std::size_t quad) const {
    std::uint32_t signs = 0;
    for (std::size_t i = 0; i < 4; ++i) signs |= (sign_byte(quad % 2 * 4 + i) >> (quad / 2) & 1U) << (8 * i);
    return signs;
  }
  std::uint32_t sign_byte(std::size_t index) const {
    if (index < format_.grid->sign_bytes()) return byte(index);
    std::uint32_t odd = 0;
    for (std::size_t i = 0; i < index; ++i) odd ^= byte(i);
    return odd;
  }

  std::uint32_t trits(std::size_t quad) const {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const bool is_last = quad == 15;
      const std::uint32_t digit =
          is_last ? trit(byte(kTritBytes - 1), i) : trit(byte(quad / 5 * 4 + i), quad % 5);
      word |= (digit + 127) << (8 * i);
    }
    return word;
  }
  static std::uint32_t trit(std::uint32_t byte, std::size_t index) {
    for (std::size_t i = 0; i < index; ++i) byte = byte * 3 & 255;
    return byte * 3 >> 8;
  }

  const QuantFormat& format_;
  ByteAt byte_at_;
};

}  // namespace tp::kernels
