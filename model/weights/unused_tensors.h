// Tensors of a checkpoint that its model does not use.
#pragma once

#include "model/weights/checkpoint/weight_source.h"
#include "model/weights/tensor_names.h"
#include "parallel/shard.h"

#include <string>
#include <vector>

namespace tp {

// The tensors of which a complete load has read nothing, without buffers, which are known to hold no weights.
// For the first rank, which has a part of every tensor; on others it is empty.
//
// What is left over outside of blocks (another task's head, a vision tower) or in blocks that are known to be
// of no use does not change what the model computes, and is for a warning. Those of layers for the
// prediction of more tokens at a time are one entry. A tensor of a block would, a bias of which config.json
// says nothing for example: throws CheckpointError.
std::vector<std::string> find_unused_tensors(const TensorNames& names, const WeightSource& source, TpRank tp);

}  // namespace tp
