// Products on a matrix unit, in tiles of bf16. Compiled for AMX and, for tests on machines without it, with
// tiles in plain C++; see simd.h for the rules.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::kernels {

// Tokens of a block, which two tiles hold.
inline constexpr std::size_t kTileBlock = 32;

// Panels of a packed weight times the tokens of some blocks.
struct TileProduct {
  const unsigned char* panels;  // the first panel
  std::size_t panel_bytes;
  std::size_t count;        // of panels
  std::size_t in_features;  // of which the last tile may have less than 32
  std::size_t tokens;
  const std::uint32_t* x_tiles;  // see TileKernels::round_block
  std::uint32_t* converted;      // converted_words(...) for weights that are not bf16
  float* y;                      // [tokens, y_stride], the outputs of the first panel first
  std::size_t y_stride;
  std::size_t out_features;  // of these panels; the last one may be cut short
};

struct TileKernels {
  // Weights that are not bf16 become bf16 on the way: f16 the exact sum of two, int8 and int4 rounded
  // products of element and scale.
  void (*bf16)(const TileProduct& product);
  void (*f16)(const TileProduct& product);
  void (*int8)(const TileProduct& product);
  void (*int4)(const TileProduct& product);

  // Rounds `tokens` <= 32 rows of activations to the tiles of a block: for every 32 input features 16 rows of
  // 16 pairs, and 16 more where there are more tokens than that; zeros beyond tokens and features.
  void (*round_block)(const float* x, std::size_t x_stride, std::size_t tokens, std::size_t in_features,
                      std::uint32_t* tiles);

  // Words of 32 bits that a thread needs to convert weights.
  std::size_t (*converted_words)(std::size_t tokens, std::size_t in_features);

  // Whether a product of tiles is what it should be.
  bool (*works)();
  // See PeakKernels; null where tiles are emulated.
  double (*multiply_bf16)(std::size_t rounds);
  double (*multiply_int8)(std::size_t rounds);
};

// Words of the tiles of `tokens` activations, in blocks one after the other.
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
