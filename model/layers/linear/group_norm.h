#pragma once

#include "model/config/spec.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

// Heads in groups of equal size.
struct GroupedHeads {
  std::size_t heads = 0;
  std::size_t head_dim = 0;
  std::size_t groups = 1;

  std::size_t heads_per_group() const { return heads / groups; }
};

// RMS norms of groups of heads, where ranks divide the heads. If any rank has only a part of a group, one
// small all-reduce adds up the ranks' sums of squares.
class GroupNorm {
 public:
  // `own`: this rank's heads. `ends`: the last heads of all ranks, plus 1, [ranks]. Throws CheckpointError,
  // and ConfigError unless `spec` is an RMS norm.
  GroupNorm(WeightLoader& loader, const std::string& layer, const NormSpec& spec, const GroupedHeads& all,
            Range own, const std::vector<std::size_t>& ends);

  // Normalizes in place. x: [tokens, local heads * head_dim]. Collective if groups are divided, except in
  // shape-only steps; throws CommError.
  void operator()(TensorView<float> x, const StepContext& step) const;

 private:
  // This rank's part of a group.
  struct Part {
    std::size_t group;
    Range columns;  // local columns
  };

  // The sums of squares of whole groups, [tokens, groups].
  TensorView<float> sums_of(TensorView<const float> x, const StepContext& step) const;

  GroupedHeads heads_;
  float eps_;
  bool divides_groups_;      // whether any rank has only a part of a group
  std::vector<float> gain_;  // [local heads * head_dim]
  std::vector<Part> parts_;
};

}  // namespace tp
