// Products on a matrix unit, in tiles of bf16. Compiled for AMX and, for tests on machines without it, with
// tiles in plain C++; see simd.h for the rules.
#pragma once

#include "model/kernels/simd/pack/quant_format.h"
#include "model/kernels/simd/pack/scaled_format.h"

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// Tokens of a block, which two tiles hold.
inline constexpr std::size_t kTileBlock = 32;

// Panels of a packed weight times some tokens. With `combine` given, each of `count` panels is one of gates
// and the panel `apart` from it has the ups; results are those of combine(gates, ups, size, out).
struct TileProduct {
  const unsigned char* panels;  // the first panel
  std::size_t panel_bytes;
  std::size_t count;        // of panels; with combine, of gates
  std::size_t in_features;  // of which the last tile may have less than 32
  std::size_t tokens;
  const std::uint32_t* x_tiles;  // see TileKernels::round_block
  std::uint32_t* scratch;        // scratch_words(...)
  float* y;                      // [tokens, y_stride], the outputs of the first panel first; or null
  std::size_t y_stride;
  std::size_t out_features;  // of these panels; the last one may be cut short
  // In place of y, the sums of leaves of so many features, a multiple of 32; see leaf_sum.h.
  double* sums = nullptr;
  std::size_t leaf = 0;

  // Where y is null: outputs go to the tiles of [tokens, y_features] activations, see
  // TileKernels::round_block, as features from first_feature on; both are multiples of 16.
  std::uint32_t* y_tiles = nullptr;
  std::size_t y_features = 0;
  std::size_t first_feature = 0;

  // Types with a QuantFormat, and the first block's place in its super-block.
  const QuantFormat* format = nullptr;
  std::size_t first_block = 0;
  // Types with a ScaledFormat, and the groups of columns if it has a list.
  const ScaledFormat* scaled = nullptr;
  const std::uint16_t* column_groups = nullptr;

  std::size_t apart = 0;  // panels from gates to ups
  void (*combine)(const float* gates, const float* ups, std::size_t size, float* out) = nullptr;
};

struct TileKernels {
  // Weights that are not bf16 become bf16 on the way: f16 the exact sum of two, others rounded values.
  void (*bf16)(const TileProduct& product);
  void (*f16)(const TileProduct& product);
  void (*int8)(const TileProduct& product);
  void (*int4)(const TileProduct& product);
  void (*quantized)(const TileProduct& product);  // with a QuantFormat
  void (*scaled)(const TileProduct& product);     // with a ScaledFormat

  // Rounds the block of up to 32 activations from `first_token` on to the places of its tiles among those of
  // all `tokens`, see XLayout in tile_layout.h. Beyond tokens and features there are zeros.
  void (*round_block)(const float* x, std::size_t x_stride, std::size_t tokens, std::size_t in_features,
                      std::size_t first_token, std::uint32_t* tiles);

  // Words of 32 bits that a thread needs for sums and converted weights.
  std::size_t (*scratch_words)(std::size_t tokens, std::size_t in_features);

  // A self-test: whether products of tiles are correct.
  bool (*works)();
  // See PeakKernels; null where tiles are emulated.
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

// Those of the active instruction set, or null.
const TileKernels* tile_kernels();

}  // namespace tp::kernels
