// Converts the quantized types of checkpoints to tiles of bf16. For tile_kernels.cc only: everything is local
// to the translation unit.
#pragma once

#include "model/kernels/simd/matmul/quant_blocks.h"
#include "model/kernels/simd/tiles/tile_weights.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tp::kernels {
namespace {

// Byte `j` of each word minus `zero`, as float32.
inline Vector elements_at(const WordVector& words, std::size_t j, std::int32_t zero) {
  Vector out;
  for (std::size_t i = 0; i < kParts; ++i) {
    const auto bytes = (IntRegister)((words.part[i] >> static_cast<int>(8 * j)) & 0xffU);
    out.part[i] = __builtin_convertvector(bytes - zero, FloatRegister);
  }
  return out;
}

// Rounds a block's values to bf16: 32 rows of pairs. With offsets, a value is one fused multiply-add.
template <const QuantFormat& F>
void convert_block(const unsigned char* elements, const unsigned char* super, std::uint32_t* out) {
  UnpackedOf<F> block;
  unpack<F>(elements, super, block);
  for (std::size_t q = 0; q < kQuads; ++q) {
    const std::size_t group = 4 * q / F.group;
    const Vector scale = block.scale(group);
    Vector offset = {};
    if constexpr (F.has_offsets) {
      offset = block.offset(group);
      for (std::size_t i = 0; i < kParts; ++i)
        offset.part[i] = F.subtracts ? -offset.part[i] : offset.part[i];
    }
    const WordVector words = load_words(block.quads[q]);
    for (std::size_t j = 0; j < 4; j += 2, out += kPanel) {
      Vector first = offset;
      Vector second = offset;
      multiply_add(elements_at(words, j, F.zero), scale, first);
      multiply_add(elements_at(words, j + 1, F.zero), scale, second);
      store_words(round_half_up(first, second), out);
    }
  }
}

constexpr std::size_t kFormats = sizeof(kQuantFormats) / sizeof(kQuantFormats[0]);

// convert_block for each of kQuantFormats.
struct Converters {
  void (*of_format[kFormats])(const unsigned char*, const unsigned char*, std::uint32_t*);
};
template <std::size_t... kIndices>
constexpr Converters converters(std::index_sequence<kIndices...>) {
  return {{convert_block<*kQuantFormats[kIndices]>...}};
}

struct QuantWeights {
  static constexpr std::size_t kSummands = 1;
  static constexpr bool kConverts = true;
  static std::size_t bytes_before(const TileProduct& p, std::size_t k) {
    return p.format->panel_bytes(p.first_block, k / kBlock);
  }

  static void convert(const TileProduct& p, const unsigned char* panel, std::size_t begin, std::size_t end,
                      std::uint32_t* out, std::uint32_t*) {
    constexpr auto kConvert = converters(std::make_index_sequence<kFormats>{});
    std::size_t format = 0;
    while (kQuantFormats[format] != p.format) ++format;
    for (std::size_t k = begin; k < end; k += kBlock, out += kBlock / 2 * kPanel) {
      const std::size_t block = k / kBlock;
      const unsigned char* elements = panel + p.format->place(p.first_block, block);
      for (std::size_t i = 0; i < p.format->block_bytes(); i += kVectorBytes)
        __builtin_prefetch(elements + i + kPrefetchBytes);
      kConvert.of_format[format](elements, panel + p.format->super_place(p.first_block, block), out);
    }
  }
};

}  // namespace
}  // namespace tp::kernels
