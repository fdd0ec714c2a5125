// The operands of matmuls: activations in the form that the kernels of a path need. For matmul.cc.
#pragma once

#include "model/kernels/matmul.h"
#include "model/kernels/packed_weight.h"
#include "model/kernels/simd/matmul/packed.h"
#include "tp/internal/threads.h"
#include "tp/tensor.h"

#include <algorithm>
#include <cstddef>

namespace tp::kernels {

// Parts of the scratch memory begin on cache lines.
inline std::size_t lines(std::size_t floats) { return round_up(floats, 16); }

// Calls body(row) for all rows, which are divided among threads.
template <class Body>
void for_rows(TensorView<const float> x, const Body& body) {
  for_thread_parts(x.rows(), x.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) body(row);
  });
}

// How rows of activations are padded with zeros to match the panels of a weight.
struct Filling {
  std::size_t leaf;         // features of a leaf
  std::size_t padded_leaf;  // features of a padded leaf
  std::size_t columns;      // features of a padded row
  std::size_t front = 0;    // features before the first one

  // Without leaves to pad, the row is padded to a multiple of `step`.
  static Filling of(const PackedLayout& layout, std::size_t step) {
    const std::size_t in = layout.in_features;
    if (!layout.fills_leaves())
      return {in, in, in == 0 ? 0 : round_up(layout.front() + in, step), layout.front()};
    return {layout.leaf, layout.padded_leaf(), layout.padded_in_features()};
  }

  // A padded row, in `buffer` unless it needs no padding.
  const float* row(TensorView<const float> x, std::size_t index, float* buffer) const {
    if (columns == x.columns()) return x.row(index);
    std::fill(buffer, buffer + front, 0.0F);
    std::size_t to = front;
    for (std::size_t begin = 0; begin < x.columns(); begin += leaf, to += padded_leaf) {
      const std::size_t size = std::min(leaf, x.columns() - begin);
      std::copy_n(x.row(index) + begin, size, buffer + to);
      std::fill(buffer + to + size, buffer + std::max(to + padded_leaf, to + size), 0.0F);
    }
    std::fill(buffer + std::min(to, columns), buffer + columns, 0.0F);
    return buffer;
  }
};

// Activations for the panels of a weight, at `scratch`: as pairs of bf16, as bytes with scales, or unchanged.
PanelProduct with_pairs(TensorView<const float> x, const PackedLayout& layout, float* scratch);
PanelProduct with_bytes(TensorView<const float> x, const PackedLayout& layout, float* scratch);
PanelProduct with_floats(TensorView<const float> x, const PackedView& weight);
// Floats of scratch for activations as bytes, without copies of padded rows.
std::size_t bytes_scratch(const PackedLayout& weight, std::size_t tokens);

// Activations as tiles of bf16, at `scratch`.
TiledRows to_tiles(TensorView<const float> x, float* scratch);

}  // namespace tp::kernels
