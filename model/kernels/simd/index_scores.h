// Scores of index keys, for simd_kernels.cc.
#pragma once

#include "model/kernels/simd/simd.h"
#include "model/kernels/simd/vector/vector.h"

#include <math.h>

namespace tp::kernels {
namespace {

// Sums in flight: panels x heads, as many as registers hold.
constexpr std::size_t kIndexPanels = kParts == 1 ? 2 : 1;
constexpr std::size_t kIndexHeads = kParts == 1 ? 8 : kParts == 2 ? 4 : 2;

// Adds the heads' parts of one token's scores, in the order of heads. `keys`: [panels, dim, 16]; `min`: of
// products. Elements of a key are added in order, whatever the numbers of panels and heads are.
template <std::size_t kPanels, std::size_t kHeads>
inline void add_heads(const float* keys, std::size_t dim, const float* query, const float* weight,
                      const Vector& min, Vector (&total)[kPanels]) {
  Vector dots[kHeads][kPanels] = {};
  for (std::size_t d = 0; d < dim; ++d) {
    for (std::size_t p = 0; p < kPanels; ++p) {
      const Vector key = load(keys + (p * dim + d) * kLanes);
      for (std::size_t h = 0; h < kHeads; ++h) multiply_add(key, query[h * dim + d], dots[h][p]);
    }
  }
  for (std::size_t h = 0; h < kHeads; ++h) {
    for (std::size_t p = 0; p < kPanels; ++p) multiply_add(larger(dots[h][p], min), weight[h], total[p]);
  }
}

template <std::size_t kPanels>
void score_panels(const IndexTile& tile, std::size_t panel, const float* keys) {
  const Vector min = broadcast(tile.rectified ? 0.0F : -INFINITY);
  for (std::size_t token = 0; token < tile.tokens; ++token) {
    const float* const query = tile.query + token * tile.query_stride;
    const float* const weight = tile.weight + token * tile.weight_stride;
    Vector total[kPanels] = {};
    std::size_t head = 0;
    for (; head + kIndexHeads <= tile.heads; head += kIndexHeads)
      add_heads<kPanels, kIndexHeads>(keys, tile.dim, query + head * tile.dim, weight + head, min, total);
    for (; head < tile.heads; ++head)
      add_heads<kPanels, 1>(keys, tile.dim, query + head * tile.dim, weight + head, min, total);
    for (std::size_t p = 0; p < kPanels; ++p)
      store(total[p], tile.scores + (token * tile.panels + panel + p) * kLanes);
  }
}

// The panel's keys as floats.
const float* panel_as_floats(const IndexTile& tile, std::size_t panel, std::size_t panels) {
  const std::size_t size = tile.dim * kLanes;
  if (!tile.is_bf16) return reinterpret_cast<const float*>(tile.keys) + panel * size;
  for (std::size_t i = 0; i < panels * size; i += kLanes)
    store(load_bf16(tile.keys + (panel * size + i) * 2), tile.widened + i);
  return tile.widened;
}

void index_scores(const IndexTile& tile) {
  std::size_t panel = 0;
  for (; panel + kIndexPanels <= tile.panels; panel += kIndexPanels)
    score_panels<kIndexPanels>(tile, panel, panel_as_floats(tile, panel, kIndexPanels));
  for (; panel < tile.panels; ++panel) score_panels<1>(tile, panel, panel_as_floats(tile, panel, 1));
}

}  // namespace
}  // namespace tp::kernels
