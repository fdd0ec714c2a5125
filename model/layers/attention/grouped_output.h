// The output projection of attention whose heads form groups.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/linear/headwise_linear.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/weight_loader.h"
#include "parallel/shard/partial_sum.h"
#include "parallel/shard/shard.h"

#include <cstddef>

namespace tp {

// y = b(a(group 0), a(group 1), ...), where each group of heads has its own matrix a. A rank has the matrices
// of the groups to which its heads belong. If ranks share a group, each of them projects the group with zeros
// for the other ranks' heads, because both projections are linear.
//
// If results must have the same bits on any number of ranks, each head is projected on its own: a sum over
// heads between the two projections would depend on the ranks' heads.
class GroupedOutput {
 public:
  // `heads`: this rank's. Throws CheckpointError.
  GroupedOutput(WeightLoader& loader, const CompressedAttentionSpec& spec, std::size_t hidden_size,
                const CompressedAttentionNames& names, Range heads);

  // x: [tokens, heads * head_dim] -> this rank's addend, [tokens, hidden_size]
  PartialSum operator()(TensorView<const float> x, const StepContext& step) const;

 private:
  // Copies heads to their places in the rank's groups, and sets the other heads to 0. `only`: the number of
  // the only head of each group that is copied; kAll: all.
  static constexpr std::size_t kAll = SIZE_MAX;
  void place_heads(TensorView<const float> x, std::size_t only, TensorView<float> out) const;

  std::size_t head_dim_;
  std::size_t group_size_;  // heads of a group
  std::size_t rank_;        // elements of a group's projection
  Range heads_;
  Range groups_;
  bool has_same_bits_;
  HeadwiseLinear a_proj_;     // [groups][rank, group_size * head_dim]
  RowParallelLinear b_proj_;  // [hidden_size, groups * rank]
};

}  // namespace tp
