// The adapters of a linear layer on this rank: what they add to the layer's output.
#pragma once

#include "model/layers/linear/step_context.h"
#include "model/weights/local_weight.h"
#include "model/weights/weight_loader.h"
#include "parallel/shard/shard.h"
#include "tp/tensor.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Adds scale * B (A x) to the rows of a layer's output that have an adapter.
//
// Column-parallel: a rank has all of A and its rows of B, so it adds to its slice of the output. Layers whose
// rows are stacked have stacked factors A, too, because they read the same input.
//
// Row-parallel: a rank has its columns of A and all of B, so B (A x) is part of its addend. With leaves, sums
// must not depend on which columns a rank has: each leaf's B (A x) is computed separately, and rounded like
// the leaf's product with the weight.
class LayerAdapters {
 public:
  LayerAdapters() = default;
  // For a column-parallel layer. Throws CheckpointError if factors do not have the layer's shape.
  LayerAdapters(WeightLoader& loader, std::span<const OwnedRows> stored);
  // For a row-parallel layer. `leaf`: see PackedLayout. Throws like above.
  LayerAdapters(WeightLoader& loader, const StoredLayer& stored, Range columns, std::size_t leaf);

  // Whether no adapter changes the layer.
  bool empty() const { return all_.empty(); }
  // Whether any row of the step has an adapter that changes the layer; in a shape-only step, whether any
  // could.
  bool change(const StepContext& step) const;

  // x: [tokens, local in_features], y: [tokens, local out_features], the layer's output without adapters;
  // doubles if the layer has leaves.
  void add_to(TensorView<const float> x, const StepContext& step, TensorView<float> y) const;
  void add_to(TensorView<const float> x, const StepContext& step, TensorView<double> y) const;

 private:
  // The part of the stacked A x that belongs to one stored layer.
  struct Scaled {
    Range ranks;
    float scale = 1.0F;
  };
  // Rows of one stored layer's B.
  struct Up {
    Range ranks;
    std::size_t first = 0;  // first output feature
    LocalWeight b;          // [own rows, rank]
  };
  struct Factors {
    std::size_t adapter = 0;     // index + 1
    std::vector<LocalWeight> a;  // [sum of ranks, local in_features], or one for each leaf
    std::vector<Scaled> scaled;
    std::vector<Up> ups;
  };

  const Factors* find(std::size_t adapter) const;
  template <class T>
  void add(TensorView<const float> x, const StepContext& step, TensorView<T> y) const;
  template <class T>
  void add_rows(const Factors& factors, TensorView<const float> x, std::span<const std::size_t> rows,
                const StepContext& step, TensorView<T> y) const;

  std::vector<Factors> all_;  // in the order of adapters
};

}  // namespace tp
