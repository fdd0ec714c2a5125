// Packs panels of the quantized types of checkpoints. For pack_kernels.cc only: everything is local to the
// translation unit.
#pragma once

#include "model/kernels/simd/pack/pack_strips.h"

namespace tp::kernels {
namespace {

constexpr std::size_t kSuper = 256;
constexpr std::size_t kQuads = 16;  // quads of a block

// Writes a plane of bits of the elements of 16 rows: `count` bits of each element, from bit `shift` on.
inline unsigned char* write_plane(const std::uint32_t (*quads)[kPanel], int shift, int count,
                                  unsigned char* plane) {
  const std::uint32_t mask = ((1U << count) - 1) * 0x01010101U;
  const std::size_t vectors = 2 * static_cast<std::size_t>(count);
  for (std::size_t v = 0; v < vectors; ++v) {
    std::uint32_t words[kPanel] = {};
    for (std::size_t field = 0; field < kQuads / vectors; ++field) {
      for (std::size_t r = 0; r < kPanel; ++r) {
        words[r] |= (quads[field * vectors + v][r] >> shift & mask)
                    << (field * static_cast<std::size_t>(count));
      }
    }
    __builtin_memcpy(plane, words, sizeof(words));
    plane += sizeof(words);
  }
  return plane;
}

// Writes number(row) for 16 rows, 0 for rows that the source does not have. Number is the type of the
// results.
template <class Number, class Get>
inline unsigned char* write_numbers(const QuantSource& source, unsigned char* to, const Get& number) {
  for (std::size_t r = 0; r < kPanel; ++r) {
    const Number value = r < source.rows ? number(r) : Number{0};
    __builtin_memcpy(to + r * sizeof(value), &value, sizeof(value));
  }
  return to + kPanel * sizeof(Number);
}

// Writes the scales of block `block`, counted from the beginning of the source.
inline unsigned char* write_scales(const QuantSource& source, std::size_t block, unsigned char* to) {
  const QuantFormat& format = source.format;
  const std::size_t groups = format.groups();
  const std::size_t row_groups = source.super_blocks * kSuper / format.group;
  const std::size_t first = block * groups;
  const auto byte = [&](const std::uint8_t* numbers, std::size_t group, std::size_t row) {
    return numbers[row * row_groups + first + group];
  };
  if (format.has_zero_points() || format.has_only_super_scale()) return to;
  if (format.has_own_scales()) {
    const std::size_t each = format.has_offsets ? 2 : 1;
    for (std::size_t i = 0; i < groups * each; ++i) {
      to = write_numbers<std::uint16_t>(
          source, to, [&](std::size_t r) { return source.halves[(r * row_groups + first) * each + i]; });
    }
    return to;
  }
  if (format.scales == ScaleKind::six_bits) {
    const auto number = [&](std::size_t i, std::size_t row) {
      return i < groups ? byte(source.scales, i, row) : byte(source.offsets, i - groups, row);
    };
    for (std::size_t i = 0; i < 3; ++i) {
      to = write_numbers<std::uint8_t>(source, to, [&](std::size_t r) {
        const unsigned last = number(3, r) >> (2 * i) & 3U;
        return static_cast<std::uint8_t>(number(i, r) | last << 6);
      });
    }
    return to;
  }
  for (std::size_t i = 0; i < groups; ++i)
    to = write_numbers<std::uint8_t>(source, to, [&](std::size_t r) { return byte(source.scales, i, r); });
  return to;
}

// Writes the numbers before a super-block, whose first block in the panel is `block`.
inline unsigned char* write_super(const QuantSource& source, std::size_t block, unsigned char* to) {
  const QuantFormat& format = source.format;
  if (format.has_zero_points()) {
    const std::size_t row_groups = source.super_blocks * kSuper / format.group;
    for (std::size_t g = 0; g < format.scales_of_super(); ++g) {
      const std::size_t place = block * format.groups() + g;
      to = write_numbers<std::uint16_t>(source, to,
                                        [&](std::size_t r) { return source.halves[r * row_groups + place]; });
      to = write_numbers<std::uint8_t>(source, to,
                                       [&](std::size_t r) { return source.offsets[r * row_groups + place]; });
    }
    return to;
  }
  if (format.scales == ScaleKind::e4m3) {
    return write_numbers<std::uint32_t>(source, to, [&](std::size_t r) {
      const std::uint16_t* const halves = source.halves + (r * source.super_blocks + block / 4) * 2;
      return halves[0] | std::uint32_t{halves[1]} << 16;
    });
  }
  const std::size_t each = format.has_offsets ? 2 : 1;
  for (std::size_t half = 0; half < each; ++half) {
    to = write_numbers<std::uint16_t>(source, to, [&](std::size_t r) {
      return source.halves[(r * source.super_blocks + block / 4) * each + half];
    });
  }
  return to;
}

// Writes the planes of the elements [16][64].
inline unsigned char* write_elements(const QuantFormat& format,
                                     const std::uint8_t (&elements)[kPanel][kStrip], unsigned char* to) {
  std::uint32_t quads[kQuads][kPanel];
  transpose(elements, sizeof(elements[0]), kQuads, quads);
  to = write_plane(quads, 0, format.low_bits, to);
  return format.high_bits > 0 ? write_plane(quads, format.low_bits, format.high_bits, to) : to;
}

// Writes the strings of 16 rows; see StringLayout.
inline unsigned char* write_strings(const StringLayout& layout, const std::uint8_t (&strings)[kPanel][kStrip],
                                    unsigned char* to) {
  for (std::size_t word = 0; word < layout.words; ++word) {
    for (std::size_t r = 0; r < kPanel; ++r, to += 4) __builtin_memcpy(to, strings[r] + 4 * word, 4);
  }
  const std::size_t end = 4 * layout.words + layout.bytes;
  for (std::size_t i = 4 * layout.words; i < end; ++i) {
    for (std::size_t r = 0; r < kPanel; ++r) *to++ = strings[r][i];
  }
  if (layout.has_half) {
    for (std::size_t r = 0; r < kPanel / 2; ++r)
      *to++ = static_cast<unsigned char>((strings[r][end] & 15) | strings[r + kPanel / 2][end] << 4);
  }
  return to;
}

void quantized(const QuantSource& source, unsigned char* panel) {
  const QuantFormat& format = source.format;
  const std::size_t stride = source.super_blocks * kSuper;
  for (std::size_t i = 0; i < source.blocks; ++i) {
    const std::size_t block = source.first_block + i;
    if (format.has_super_blocks() && (i == 0 || block % format.super_blocks() == 0))
      panel = write_super(source, block, panel);
    std::uint8_t elements[kPanel][kStrip] = {};
    for (std::size_t r = 0; r < source.rows; ++r)
      __builtin_memcpy(elements[r], source.elements + r * stride + block * kStrip, kStrip);
    panel = format.has_codes() ? write_strings(format.strings(), elements, panel)
                               : write_elements(format, elements, panel);
    panel = write_scales(source, block, panel);
  }
}

}  // namespace
}  // namespace tp::kernels
