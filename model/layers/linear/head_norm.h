#pragma once

#include "model/layers/linear/norm.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tp {

// Normalizes each head of a projection separately. The heads share one gain, or each has its own.
class HeadNorm {
 public:
  // One gain for all heads. Throws CheckpointError.
  HeadNorm(WeightLoader& loader, const std::string& layer, std::size_t head_dim, const NormSpec& spec);

  // One gain per head, stored as a matrix of `shape`, [heads, head_dim], or, with `tensor_per_head`, as one
  // tensor per head, with the head's index in its name. `own`: this rank's heads. Throws CheckpointError.
  HeadNorm(WeightLoader& loader, const std::string& layer, MatrixShape shape, const NormSpec& spec, Range own,
           bool tensor_per_head);

  // One gain per head, [heads * head_dim], without the spec's gain_offset.
  HeadNorm(const NormSpec& spec, std::size_t head_dim, std::span<const float> gains);

  // x: [tokens, local heads * head_dim]
  void apply_in_place(TensorView<float> x) const;

 private:
  std::size_t head_dim_;
  std::vector<Norm> norms_;  // one per local head, or one for all heads
};

}  // namespace tp
