// This rank's part of a weight matrix.
#pragma once

#include "model/kernels/matmul.h"
#include "model/kernels/packed_weight.h"
#include "model/kernels/scaled_weight.h"
#include "model/kernels/weighted_rows.h"
#include "model/memory/buffer.h"
#include "model/memory/workspace.h"
#include "tp/tensor.h"

#include <cstddef>
#include <span>

namespace tp {

// Rows of one weight matrix, or of several matrices that read the same input, stacked vertically.
class LocalWeight {
 public:
  LocalWeight(WeightType type, std::size_t out_features, std::size_t in_features)
      : LocalWeight(kernels::PackedLayout{type, out_features, in_features}) {}
  explicit LocalWeight(const kernels::PackedLayout& layout)
      : layout_(layout), elements_(layout_.bytes(), kWeightMemory) {}
  // Without memory: only the shape and size are known.
  static LocalWeight shape_of(const kernels::PackedLayout& layout) { return {layout, {}}; }

  const kernels::PackedLayout& layout() const { return layout_; }
  std::size_t out_features() const { return layout_.out_features; }
  std::size_t in_features() const { return layout_.in_features; }
  WeightType type() const { return layout_.type; }
  std::size_t bytes() const { return layout_.bytes(); }
  bool has_leaves() const { return layout_.leaf != 0; }

  // The packed elements.
  std::span<std::byte> memory() const { return {elements_.data(), elements_.size()}; }

  // Packs rows, [rows, in_features]; see kernels::pack_rows.
  void pack(std::size_t first_row, const StoredRows& rows) {
    kernels::pack_rows(layout_, first_row, rows, elements_.data());
  }
  // Packs rows in groups; see kernels::pack_groups.
  void pack(std::size_t first_row, const kernels::GroupedRows& rows) {
    kernels::pack_groups(layout_, first_row, rows, elements_.data());
  }
  // Packs rows of integers of a type with a QuantFormat; see kernels::pack_quantized.
  void pack(std::size_t first_row, const kernels::QuantizedRows& rows) {
    kernels::pack_quantized(layout_, first_row, rows, elements_.data());
  }
  // Packs rows of a type with a ScaledFormat (see kernels::pack_scaled), and sets the groups of its columns.
  void pack(std::size_t first_row, const kernels::ScaledRows& rows) {
    kernels::pack_scaled(layout_, first_row, rows, elements_.data());
  }
  void set_column_groups(std::span<const std::uint16_t> groups) {
    kernels::set_column_groups(layout_, groups, elements_.data());
  }

  // x . weight^T. x: [tokens, in_features] -> [tokens, out_features]
  TensorView<float> multiply(TensorView<const float> x, Workspace& workspace) const;
  // activation(gates) * ups. The weight contains both, gates first. -> [tokens, out_features / 2]
  TensorView<float> multiply_gated(TensorView<const float> x, kernels::Activation activation,
                                   Workspace& workspace) const;
  // Whether matmuls with this many tokens accept activations in tiles, and multiply() for such activations.
  bool takes_tiles(std::size_t tokens) const {
    return layout_.takes_whole_rows() && kernels::takes_tiles(layout_, tokens);
  }
  TensorView<float> multiply(const kernels::TiledRows& x, Workspace& workspace) const;
  // With leaves: writes to y, [tokens, out_features].
  void multiply_leaves(TensorView<const float> x, Workspace& workspace, TensorView<double> y) const;
  void multiply_leaves(const kernels::TiledRows& x, Workspace& workspace, TensorView<double> y) const;
  // multiply_gated with a result in tiles; only if can_gate_to_tiles.
  bool can_gate_to_tiles(std::size_t tokens) const;
  kernels::TiledRows multiply_gated_to_tiles(TensorView<const float> x, kernels::Activation activation,
                                             Workspace& workspace) const;
  // multiply that writes to y, with scratch_floats(tokens) floats of scratch memory.
  void multiply_into(TensorView<const float> x, TensorView<float> scratch, TensorView<float> y) const {
    kernels::matmul(x, {layout_, elements_.data()}, scratch, y);
  }

  std::size_t scratch_floats(std::size_t tokens) const { return kernels::matmul_scratch(layout_, tokens); }

  // One row as float32, [in_features].
  void unpack_row(std::size_t row, float* out) const {
    kernels::unpack_row({layout_, elements_.data()}, row, out);
  }
  // See kernels::sum_weighted_rows.
  void sum_weighted_rows(TensorView<const float> factors, TensorView<double> sums) const {
    kernels::sum_weighted_rows({layout_, elements_.data()}, factors, sums);
  }

 private:
  LocalWeight(const kernels::PackedLayout& layout, Buffer<std::byte> elements)
      : layout_(layout), elements_(std::move(elements)) {}

  kernels::PackedLayout layout_;
  Buffer<std::byte> elements_;
};

}  // namespace tp
