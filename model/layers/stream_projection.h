#pragma once

#include "model/config/spec.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"
#include "parallel/shard/partial_sum.h"

#include <optional>
#include <vector>

namespace tp {

// A drafter's projection of its target's streams to hidden_size. Each rank multiplies its own share of the
// columns.
class StreamProjection {
 public:
  // Throws CheckpointError.
  StreamProjection(WeightLoader& loader, const DrafterNames& names, std::size_t hidden_size,
                   const DrafterSpec& spec);

  // Projects the streams in Batch::states_before -> this rank's addend, [tokens, hidden_size].
  PartialSum operator()(const StepContext& step) const;

 private:
  std::vector<Norm> stream_norms_;  // [streams], or empty
  std::optional<Norm> all_streams_norm_;
  std::size_t size_;  // elements of all streams
  Range columns_;     // this rank's share of the columns
  RowParallelLinear projection_;
};

}  // namespace tp
