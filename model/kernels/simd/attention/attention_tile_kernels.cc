// Compiled for AMX and for emulated tiles; see simd.h for the restrictions.
//
// Attention over a bf16 cache by products of tiles. In the layout of the cache, a panel of 16 keys is one
// column of tiles. So are 16 elements of the values of 32 positions.

#include "model/kernels/simd/attention/attention_softmax.h"
#include "model/kernels/simd/attention/attention_tile.h"
#include "model/kernels/simd/tiles/tiles.h"
#include "model/kernels/simd/vector/bf16.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=amx or amx_emulated"
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

constexpr std::size_t kTile = 16;   // rows of a tile, and its columns of sums
constexpr std::size_t kDepth = 32;  // elements that a product sums
constexpr std::size_t kTileBytes = 1024;

// Rounds to pairs of bf16 for products of tiles. `size` is a multiple of 32.
void round_row(const float* x, std::size_t size, std::uint32_t* pairs) {
  for (std::size_t i = 0; i < size; i += kDepth) round_32_to_bf16(x + i, pairs + i / 2);
}

struct TileProducts {
  struct Cache {
    static constexpr bool kScaled = false;
  };
  static void round_weights(const Step& step, std::size_t row) {
    const std::size_t stride = step.score_stride();
    round_row(step.scores(row, step.begin), step.columns(), step.tile.weight_pairs + row * stride / 2);
  }
};

// Scores of 16 rows with two panels of keys.
void score_panels(const Step& step, std::size_t row, std::size_t block, std::size_t panel) {
  const AttentionTile& tile = step.tile;
  const std::uint32_t* query = tile.query_pairs + row * tile.query_stride / 2;
  const unsigned char* keys = tile.blocks[block] + panel * tile.key_panel_bytes;
  const std::ptrdiff_t ahead = step.ahead(row, block);
  zero_tile<0>();
  zero_tile<1>();
  for (std::size_t k = 0; k < tile.key_dim / kDepth; ++k) {
    if (ahead != 0) {
      fetch(keys + k * kTileBytes + ahead, kTile, kTileBytes / kTile);
      fetch(keys + tile.key_panel_bytes + k * kTileBytes + ahead, kTile, kTileBytes / kTile);
    }
    load_tile<2>(query + k * kDepth / 2, tile.query_stride / 2 * sizeof(std::uint32_t));
    load_tile<3>(keys + k * kTileBytes, kTileBytes / kTile);
    load_tile<4>(keys + tile.key_panel_bytes + k * kTileBytes, kTileBytes / kTile);
    multiply_tiles<0, 2, 3>();
    multiply_tiles<1, 2, 4>();
  }
  float* scores = step.scores(row, block) + panel * kTile;
  store_tile<0>(scores, step.score_stride() * sizeof(float));
  store_tile<1>(scores + kTile, step.score_stride() * sizeof(float));
}

// Adds the weighted values of a block to the sums in tiles kSums. Each tile has 16 elements; they begin at
// `column`.
template <int... kSums>
void add_block(const Step& step, std::size_t row, std::size_t block, std::size_t column) {
  const AttentionTile& tile = step.tile;
  const std::uint32_t* weights =
      tile.weight_pairs + (row * step.score_stride() + (block - step.begin) * tile.padded_block) / 2;
  const std::size_t pair_bytes = tile.row_columns * sizeof(std::uint32_t);
  const unsigned char* values = tile.blocks[block] + tile.values_offset + column * sizeof(std::uint32_t);
  const std::ptrdiff_t ahead = step.ahead(row, block);
  const auto add = [&]<int kSum>(std::size_t j) {
    const unsigned char* elements = values + j / 2 * pair_bytes + kSum * kTile * sizeof(std::uint32_t);
    if (ahead != 0) fetch(elements + ahead, kTile, pair_bytes);
    load_tile<5>(elements, pair_bytes);
    multiply_tiles<kSum, 4, 5>();
  };
  for (std::size_t j = 0; j < tile.padded_block; j += kDepth) {
    load_tile<4>(weights + j / 2, step.score_stride() / 2 * sizeof(std::uint32_t));
    (add.template operator()<kSums>(j), ...);
  }
}

// Computes some elements of the result of 16 rows, 16 per tile. Several tiles hide each other's latency.
template <int... kSums>
void add_columns(const Step& step, std::size_t row, std::size_t rows, std::size_t column) {
  const AttentionTile& tile = step.tile;
  float* out = tile.out + row * tile.value_columns + column;
  const std::size_t stride = tile.value_columns * sizeof(float);
  (load_tile<kSums>(out + kSums * kTile, stride), ...);
  for (std::size_t block = step.begin; block < step.end; ++block) {
    const Columns seen = visible(step, row, rows, block);
    if (seen.begin != seen.end) add_block<kSums...>(step, row, block, column);
  }
  (store_tile<kSums>(out + kSums * kTile, stride), ...);
}

// `rows` <= 16. There must be memory for 16 rows.
void attend_rows(const Step& step, std::size_t row, std::size_t rows) {
  bool sees_any = false;
  for (std::size_t block = step.begin; block < step.end; ++block) {
    const Columns seen = visible(step, row, rows, block);
    if (seen.begin == seen.end) continue;
    sees_any = true;
    for (std::size_t panel = 0; panel < step.tile.padded_block / kTile; panel += 2) {
      score_panels(step, row, block, panel);
    }
  }
  if (!sees_any) return;
  soften<TileProducts>(step, row, rows);
  std::size_t column = 0;
  for (; column + 4 * kTile <= step.tile.value_columns; column += 4 * kTile) {
    add_columns<0, 1, 2, 3>(step, row, rows, column);
  }
  for (; column < step.tile.value_columns; column += kTile) add_columns<0>(step, row, rows, column);
}

}  // namespace

void attend_by_tiles(const AttentionTile& tile) {
  begin_softmax(tile);
  for (std::size_t r = 0; r < tile.rows; ++r) {
    round_row(tile.query + r * tile.query_stride, tile.query_stride,
              tile.query_pairs + r * tile.query_stride / 2);
  }
  configure_tiles();
  for_steps(tile, [&](const Step& step) {
    for (std::size_t row = 0; row < tile.rows; row += kTile) {
      attend_rows(step, row, min(kTile, tile.rows - row));
    }
  });
  release_tiles();
}

}  // namespace tp::kernels::TP_ISA_NAMESPACE
