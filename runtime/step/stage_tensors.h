// Which tensors of a checkpoint none of a pipeline's stages uses.
#pragma once

#include "model/config/tensor_names.h"
#include "runtime/step/pipeline.h"
#include "tp/communicator.h"

#include <string>
#include <vector>

namespace tp {

// find_unused_tensors for a model whose stages have read all that they need of a checkpoint. `unread`: of
// which this rank's stage has read nothing, on the stage's first rank. Rank 0 returns the tensors, other
// ranks nothing. Collective over `world`, whose ranks `pipeline` connects; throws AgreedError.
std::vector<std::string> unused_by_all_stages(Communicator& world, Pipeline& pipeline,
                                              const TensorNames& names,
                                              const std::vector<std::string>& unread);

}  // namespace tp
