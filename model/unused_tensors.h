// Tensors of a checkpoint that its model does not use.
#pragma once

#include "model/tensor_names.h"
#include "model/weight_loader.h"

#include <string>
#include <vector>

namespace tp {

// The checkpoint's tensors that a complete load has not asked for, without those that are known to hold no
// weights: buffers, and the LM head of a model that uses its embedding for it. On ranks but the first it is
// empty: they do not ask for biases that the first one holds.
//
// What is left over outside of blocks (another task's head, a vision tower) does not change what the model
// computes, and is for a warning. A tensor of a block does, a bias that config.json does not tell of for
// example: throws CheckpointError.
std::vector<std::string> find_unused_tensors(const TensorNames& names, const WeightLoader& loader);

}  // namespace tp
