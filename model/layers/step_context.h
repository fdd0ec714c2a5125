#pragma once

#include "model/layers/batch.h"
#include "model/layers/rope.h"
#include "model/memory/workspace.h"
#include "parallel/tracer.h"

#include <algorithm>
#include <cassert>
#include <span>

namespace tp {

class Communicator;

// What every part may need of the step at hand.
struct StepContext {
  const Batch& batch;
  Workspace& workspace;
  std::span<const RopeAngles> ropes{};  // of every RopeSpec of the model
  Tracer* tracer = nullptr;             // null: nobody asks what takes how long
  std::size_t cache_group = 0;          // that the layer at hand belongs to
  Communicator* comm = nullptr;         // null: the step is of shapes, or sums nothing inside of a part

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
