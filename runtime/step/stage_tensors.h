// Checkpoint tensors that no stage of a pipeline uses.
#pragma once

#include "model/config/tensor_names.h"
#include "model/weights/source/weight_source.h"
#include "runtime/step/pipeline.h"
#include "tp/communicator.h"

#include <string>
#include <vector>

namespace tp {

// Like find_unused_tensors, but for a pipeline, after all stages have loaded. `unread`: the tensors that this
// rank's stage has not read at all; only the value on each stage's first rank is used. Returns the unused
// tensors on rank 0, and an empty vector on other ranks. Collective over `world`, the ranks of `pipeline`;
// throws AgreedError.
std::vector<std::string> unused_by_all_stages(Communicator& world, Pipeline& pipeline,
                                              const TensorNames& names, const WeightSource& source,
                                              const std::vector<std::string>& unread);

}  // namespace tp
