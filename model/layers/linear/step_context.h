#pragma once

#include "model/layers/linear/batch.h"
#include "model/layers/linear/rope.h"
#include "model/memory/state_cache.h"
#include "model/memory/workspace.h"
#include "parallel/exchange/tracer.h"
#include "parallel/shard/partial_sum.h"

#include <algorithm>
#include <cassert>
#include <span>

namespace tp {

class Communicator;
class RelativeBias;

// The sums over ranks of a step of shapes.
struct SumTally {
  std::size_t sums = 0;
  std::size_t bytes = 0;  // bytes that each rank adds

  void add(std::size_t bytes_of_sum) {
    ++sums;
    bytes += bytes_of_sum;
  }
  SumTally operator-(const SumTally& less) const { return {sums - less.sums, bytes - less.bytes}; }
  SumTally& operator+=(const SumTally& more) {
    sums += more.sums;
    bytes += more.bytes;
    return *this;
  }
};

// The current step, as parts see it.
struct StepContext {
  const Batch& batch;
  Workspace& workspace;
  std::span<const RopeAngles> ropes{};  // angles of every RopeSpec of the model
  Tracer* tracer = nullptr;             // null: nobody asks what takes how long
  std::size_t cache_group = 0;          // cache group of the current layer
  LayerStates states{};                 // states of the current layer, if it is recurrent
  Communicator* comm = nullptr;         // null: the step is of shapes, or sums nothing inside of a part
  const RelativeBias* relative_bias = nullptr;  // set for models that have one
  SumTally* tally = nullptr;                    // counts sums of a step of shapes, if wanted

  // A step of shapes would sum this over ranks.
  void count_sum(const PartialSum& sum) const {
    if (tally != nullptr) tally->add(sum.bytes());
  }

  const RopeAngles& angles(const RopeSpec& spec) const {
    const auto found =
        std::ranges::find_if(ropes, [&](const RopeAngles& angles) { return *angles.spec == spec; });
    assert(found != ropes.end());
    return *found;
  }
  // With the block tables of the layer at hand.
  std::span<const kernels::AttentionSpan> spans() const { return batch.spans[cache_group]; }
};

}  // namespace tp
