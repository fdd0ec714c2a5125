// Compiled once per instruction set; see simd.h for the restrictions.
//
// Tiled attention with an online softmax: memory does not grow with the number of blocks.

#include "model/kernels/simd/attention/attention_integers.h"
#include "model/kernels/simd/attention/attention_products.h"
#include "model/kernels/simd/attention/attention_softmax.h"
#include "model/kernels/simd/attention/attention_tile.h"
#include "model/kernels/simd/attention/latent_floats.h"
#include "model/kernels/simd/vector/vector.h"

#ifndef TP_ISA_NAMESPACE
#error "compile with -DTP_ISA_NAMESPACE=portable, avx2, ..."
#endif

namespace tp::kernels::TP_ISA_NAMESPACE {
namespace {

// Rows that share a pass over keys or values, and vectors of each row: their sums must fit in registers.
constexpr std::size_t kRows = 4;
template <std::size_t Rows>
constexpr std::size_t kVectors = kParts > 1     ? 1
                                 : Rows > kRows ? 2
                                                : 4;

template <class Products, std::size_t Rows, std::size_t Panels>
void score_panels(const Step& step, std::size_t row, std::size_t block, std::size_t panel) {
  using Cache = typename Products::Cache;
  const AttentionTile& tile = step.tile;
  const std::ptrdiff_t ahead = step.ahead(row, block);
  if constexpr (Cache::kScaled) {
    if (ahead != 0) fetch_scales(step, block, panel, Panels, ahead);
  }
  Vector sums[Rows][Panels] = {};
  Products::template query<Rows, Panels>(tile, row, ahead)(
      tile.blocks[block] + panel * tile.key_panel_bytes, Cache::kBytes, tile.key_panel_bytes, 0,
      (tile.key_dim + Cache::kStep - 1) / Cache::kStep * Cache::kStep, sums);
  for (std::size_t p = 0; p < Panels; ++p) {
    for (std::size_t r = 0; r < Rows; ++r) {
      if constexpr (Cache::kScaled) {
        const Vector scales = load(step.floats(block, tile.key_scales_offset) + (panel + p) * kLanes);
        Vector scaled = {};
        for (std::size_t i = 0; i < kParts; ++i) scaled.part[i] = sums[r][p].part[i] * scales.part[i];
        sums[r][p] = scaled;
      }
      store(sums[r][p], step.scores(row + r, block) + (panel + p) * kLanes);
    }
  }
}

template <class Products, std::size_t Rows>
void score(const Step& step, std::size_t row, std::size_t block) {
  const std::size_t panels = step.tile.padded_block / kLanes;
  std::size_t panel = 0;
  if constexpr ((kVectors<Rows>) > 2) {
    for (; panel + kVectors<Rows> <= panels; panel += kVectors<Rows>)
      score_panels<Products, Rows, kVectors<Rows>>(step, row, block, panel);
  }
  if constexpr ((kVectors<Rows>) > 1) {
    for (; panel + 2 <= panels; panel += 2) score_panels<Products, Rows, 2>(step, row, block, panel);
  }
  for (; panel < panels; ++panel) score_panels<Products, Rows, 1>(step, row, block, panel);
}

template <class Products, std::size_t Rows, std::size_t Vectors>
void add_columns(const Step& step, std::size_t row, std::size_t block, Columns seen, std::size_t column) {
  using Cache = typename Products::Cache;
  const AttentionTile& tile = step.tile;
  float* out = tile.out + row * tile.value_columns + column;
  Vector sums[Rows][Vectors];
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] = load(out + r * tile.value_columns + v * kLanes);
  }
  Products::template weights<Rows, Vectors>(tile, row, (block - step.begin) * tile.padded_block,
                                            step.ahead(row, block))(
      tile.blocks[block] + tile.values_offset + column / kLanes * Cache::kBytes,
      tile.row_columns / kLanes * Cache::kBytes, Cache::kBytes, seen.begin / Cache::kStep * Cache::kStep,
      (seen.end + Cache::kStep - 1) / Cache::kStep * Cache::kStep, sums);
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t v = 0; v < Vectors; ++v) store(sums[r][v], out + r * tile.value_columns + v * kLanes);
  }
}

template <class Products, std::size_t Rows>
void add_values(const Step& step, std::size_t row, std::size_t block, Columns seen) {
  const std::size_t columns = step.tile.value_columns;
  std::size_t column = 0;
  if constexpr ((kVectors<Rows>) > 1) {
    for (; column + kVectors<Rows> * kLanes <= columns; column += kVectors<Rows> * kLanes) {
      add_columns<Products, Rows, kVectors<Rows>>(step, row, block, seen, column);
    }
  }
  for (; column < columns; column += kLanes) add_columns<Products, Rows, 1>(step, row, block, seen, column);
}

template <class Products, std::size_t Rows>
void attend_rows(const Step& step, std::size_t row) {
  bool sees_any = false;
  for (std::size_t block = step.begin; block < step.end; ++block) {
    const Columns seen = visible(step, row, Rows, block);
    // A block that no row sees gets no scores: mask overwrites them.
    if (seen.begin == seen.end) continue;
    sees_any = true;
    if constexpr (Products::kInIntegers) {
      score_block<Rows>(step, row, block);
    } else {
      score<Products, Rows>(step, row, block);
    }
  }
  if (!sees_any) return;
  soften<Products>(step, row, Rows);
  if constexpr (Products::kInIntegers) {
    add_step<Rows>(step, row);
  } else {
    for (std::size_t block = step.begin; block < step.end; ++block) {
      const Columns seen = visible(step, row, Rows, block);
      if (seen.begin != seen.end) add_values<Products, Rows>(step, row, block, seen);
    }
  }
}

template <class Products>
void attend(const AttentionTile& tile) {
  begin_softmax(tile);
  Products::round_query(tile);
  for_steps(tile, [&](const Step& step) {
    std::size_t row = 0;
    for (; row + kRows <= tile.rows; row += kRows) attend_rows<Products, kRows>(step, row);
    for (; row < tile.rows; ++row) attend_rows<Products, 1>(step, row);
  });
}

#if defined(__AVX512VNNI__)
using Int8Products = IntegerProducts;
#else
using Int8Products = WidenedProducts<Int8>;
#endif

}  // namespace

extern const AttentionKernels kAttentionKernels;
const AttentionKernels kAttentionKernels = {
    attend<WidenedProducts<F32>>, attend<WidenedProducts<Bf16>>, attend<Int8Products>,
    attend_latents<F32>,          attend_latents<Bf16>,          attend_latents<LatentInt8>,
#if defined(__AVX512BF16__)
    attend<PairProducts>,         attend_bf16_latents,
#else
    nullptr, nullptr,
#endif
#if defined(__AVX512BF16__) && defined(__AVX512VBMI__)
    attend_int8_latents,
#else
    nullptr,
#endif
};

}  // namespace tp::kernels::TP_ISA_NAMESPACE
