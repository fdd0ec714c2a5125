// Products on a matrix unit, in tiles of bf16. Compiled for AMX, and with tiles in plain C++ for tests on
// machines without AMX; see simd.h for the rules.
#pragma once

#include "model/kernels/simd/pack/quant_format.h"
#include "model/kernels/simd/pack/scaled_format.h"

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// Tokens of a block, which fill two tiles.
inline constexpr std::size_t kTileBlock = 32;

// Panels of a packed weight times some tokens. With `combine`, each of `count` panels contains gates, the
// panel `apart` from it contains ups, and results are those of combine(gates, ups, size, out).
struct TileProduct {
  const unsigned char* panels;  // the first panel
  std::size_t panel_bytes;
  std::size_t count;        // number of panels; with combine, number of gate panels
  std::size_t in_features;  // the last tile may have fewer than 32
  std::size_t tokens;
  const std::uint32_t* x_tiles;  // see TileKernels::round_block
  std::uint32_t* scratch;        // scratch_words(...)
  float* y;                      // [tokens, y_stride], from the first panel's outputs on; or null
  std::size_t y_stride;
  std::size_t out_features;  // outputs of these panels; the last panel may be incomplete
  // Instead of y, sums of leaves of `leaf` features each, a multiple of 32; see leaf_sum.h.
  double* sums = nullptr;
  std::size_t leaf = 0;

  // If y is null, outputs go to tiles of [tokens, y_features] activations (see TileKernels::round_block), as
  // features from first_feature on. Both are multiples of 16.
  std::uint32_t* y_tiles = nullptr;
  std::size_t y_features = 0;
  std::size_t first_feature = 0;

  // Types with a QuantFormat, and the first block's place in its super-block.
  const QuantFormat* format = nullptr;
  std::size_t first_block = 0;
  // Types with a ScaledFormat, and the groups of columns if the format has a list.
  const ScaledFormat* scaled = nullptr;
  const std::uint16_t* column_groups = nullptr;

  std::size_t apart = 0;  // panels from gates to ups
  void (*combine)(const float* gates, const float* ups, std::size_t size, float* out) = nullptr;
};

struct TileKernels {
  // Other weights are converted to bf16: f16 to an exact sum of two numbers, other types to rounded values.
  void (*bf16)(const TileProduct& product);
  void (*f16)(const TileProduct& product);
  void (*int8)(const TileProduct& product);
  void (*int4)(const TileProduct& product);
  void (*quantized)(const TileProduct& product);  // with a QuantFormat
  void (*scaled)(const TileProduct& product);     // with a ScaledFormat

  // Rounds the block of up to 32 activations from `first_token` on to its places in the tiles of all `tokens`
  // (see XLayout in tile_layout.h). Places after the last token or feature get zeros.
  void (*round_block)(const float* x, std::size_t x_stride, std::size_t tokens, std::size_t in_features,
                      std::size_t first_token, std::uint32_t* tiles);

  // Words of 32 bits that a thread needs for sums and converted weights.
  std::size_t (*scratch_words)(std::size_t tokens, std::size_t in_features);

  // A self-test: whether products of tiles are correct.
  bool (*works)();
  // See PeakKernels; null if tiles are emulated.
  double (*multiply_bf16)(std::size_t rounds);
  double (*multiply_int8)(std::size_t rounds);
};

// Words of the tiles of `tokens` activations.
constexpr std::size_t tile_words(std::size_t tokens, std::size_t in_features) {
  return (tokens + 15) / 16 * 16 * ((in_features + 31) / 32) * 16;
}

namespace amx {
extern const TileKernels kTileKernels;
}
namespace amx_emulated {
extern const TileKernels kTileKernels;
}

// The kernels of the active instruction set, or null.
const TileKernels* tile_kernels();

}  // namespace tp::kernels
