// Tensors of a checkpoint that its model does not use.
#pragma once

#include "model/config/tensor_names.h"

#include <span>
#include <string>
#include <vector>

namespace tp {

// Of the tensors of which a complete load has read nothing, those that are not buffers, which are known to
// hold no weights.
//
// What is left over outside of blocks (another task's head, a vision tower) or in blocks that are known to be
// of no use does not change what the model computes, and is for a warning. Those of multi-token prediction
// layers are one entry. A tensor of a block would, a bias of which config.json
// says nothing for example: throws CheckpointError.
std::vector<std::string> find_unused_tensors(const TensorNames& names, std::span<const std::string> unread);

// Removes the entry of multi-token prediction layers, for when such a layer is loaded.
void leave_out_next_token_layers(std::vector<std::string>& unused);

}  // namespace tp
