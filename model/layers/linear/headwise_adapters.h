// The adapters of a layer whose heads have weights of their own: what they add to each head's output.
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

// A head's weight W is some rows of a stored layer, or their transpose. An adapter adds scale * B A to W,
// with the head's rows of B: to W x it adds scale * B (A x), and to W^T x it adds scale * A^T (B^T x). A rank
// has all of A, and the rows of B of its own heads.
class HeadwiseAdapters {
 public:
  HeadwiseAdapters() = default;
  // `heads`: the rows of each head. Throws CheckpointError if factors do not have the layer's shape.
  HeadwiseAdapters(WeightLoader& loader, const StoredLayer& layer, std::span<const Range> heads,
                   bool transposed);

  // x: [tokens, heads * in_features], y: [tokens, heads * stride], as in HeadwiseLinear.
  void add_to(TensorView<const float> x, const StepContext& step, TensorView<float> y) const;

 private:
  // y = up (down x). One of both differs between heads, and the other has a single weight.
  struct Factors {
    std::size_t adapter = 0;        // index + 1
    std::vector<LocalWeight> down;  // [rank, in_features]
    std::vector<LocalWeight> up;    // [out_features, rank]
    float scale = 1.0F;
  };

  void add_rows(const Factors& factors, TensorView<const float> x, std::span<const std::size_t> rows,
                const StepContext& step, TensorView<float> y) const;

  std::size_t heads_ = 0;
  std::vector<Factors> all_;  // in the order of adapters
};

}  // namespace tp
