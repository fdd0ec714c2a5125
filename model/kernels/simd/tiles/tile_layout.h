// The layout of activations for products of tiles, and conversion to it. For tile_kernels.cc only: everything
// is local to the translation unit.
#pragma once

#include "model/kernels/simd/tiles/tile_product.h"
#include "model/kernels/simd/tiles/tile_weights.h"
#include "model/kernels/simd/vector/bf16.h"

namespace tp::kernels {
namespace {

constexpr std::size_t kTile = 16;  // rows of a tile
constexpr std::size_t kTileWords = 256;

// Tokens that pass over a slab of a pair of panels before the next pair. A group's sums, a slab of
// activations and the next slab's activations fill half of a second-level cache of 2 MiB.
constexpr std::size_t kChunk = 512;
constexpr std::size_t kSlab = 256;  // features

inline std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
inline std::size_t min(std::size_t a, std::size_t b) { return a < b ? a : b; }

// Tokens' activations in tiles. Chunks of tokens contain slabs of features, which contain blocks of 32
// tokens. For each 32 features, a block contains 16 rows of 16 pairs, and 16 more rows unless it is the last
// block and has no more tokens. Data that a product reads successively is adjacent: distant parts would
// conflict in a few sets of a cache.
struct XLayout {
  std::size_t tokens;
  std::size_t in_features;

  // Rows of tiles from a token to the end of a block or chunk.
  std::size_t rows(std::size_t token, std::size_t max) const {
    return divide_up(min(tokens - token, max), kTile) * kTile;
  }
  // Words before the tiles of a block's feature. `token`: first token of a block. `feature`: first feature of
  // a tile.
  std::size_t offset(std::size_t token, std::size_t feature) const {
    const std::size_t chunk = token / kChunk * kChunk;
    const std::size_t slab = feature / kSlab * kSlab;
    const std::size_t steps = divide_up(in_features, kDepth);
    const std::size_t slab_steps = min(kSlab / kDepth, steps - slab / kDepth);
    return kTile * (chunk * steps + rows(chunk, kChunk) * slab / kDepth + (token - chunk) * slab_steps +
                    rows(token, kTileBlock) * (feature - slab) / kDepth);
  }
};

// See TileKernels::round_block.
inline void round_block(const float* x, std::size_t x_stride, std::size_t tokens, std::size_t in_features,
                        std::size_t first_token, std::uint32_t* tiles) {
  const XLayout layout{tokens, in_features};
  const std::size_t rows = layout.rows(first_token, kTileBlock);
  const float* block = x + first_token * x_stride;
  for (std::size_t row = 0; row < rows; ++row) {
    const float* in = block + row * x_stride;
    for (std::size_t slab = 0; slab < in_features; slab += kSlab) {
      std::uint32_t* out =
          tiles + layout.offset(first_token, slab) + row / kTile * kTileWords + row % kTile * 16;
      const std::size_t end = min(slab + kSlab, in_features);
      for (std::size_t k = slab; k < end; k += kDepth, out += rows * 16) {
        if (first_token + row < tokens && k + kDepth <= in_features) {
          round_32_to_bf16(in + k, out);
          continue;
        }
        float rest[kDepth] = {};
        for (std::size_t i = 0; first_token + row < tokens && k + i < in_features; ++i) rest[i] = in[k + i];
        round_32_to_bf16(rest, out);
      }
    }
  }
}

// Rounds a tile of 16 tokens and 16 features from `feature` on, a multiple of 16. Includes rows after the
// last token, which are zero.
inline void round_16_features(const float* tile, const XLayout& layout, std::size_t token,
                              std::size_t feature, std::uint32_t* tiles) {
  const std::size_t block = token / kTileBlock * kTileBlock;
  std::uint32_t* out = tiles + layout.offset(block, feature / kDepth * kDepth) +
                       token % kTileBlock / kTile * kTileWords + feature % kDepth / 2;
  for (std::size_t row = 0; row < kTile; ++row) round_16_to_bf16(tile + row * kTile, out + row * 16);
}

}  // namespace
}  // namespace tp::kernels
