// Tensors of a checkpoint that its model does not use.
#pragma once

#include "model/config/tensor_names.h"
#include "model/weights/source/weight_source.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tp {

// The tensors of which a complete load has read nothing, except buffers, which are known to contain no
// weights, and layers that the family is known to ignore.
//
// Tensors outside of blocks (another task's head, a vision tower), or in blocks that are known to be unused,
// do not change results: callers warn about them. Multi-token prediction layers are one entry. Other tensors
// of blocks would change results, for example a bias that config.json does not mention: throws
// CheckpointError. Results and errors have the names of `source`'s files.
std::vector<std::string> find_unused_tensors(const TensorNames& names, const WeightSource& source,
                                             std::span<const std::string> unread);

// The number of tensors of multi-token prediction layers in a checkpoint. `names`: as stored in `source`.
std::size_t count_next_token_tensors(const TensorNames& names, const WeightSource& source);

// Removes the entry of multi-token prediction layers, for use if such a layer is loaded.
void leave_out_next_token_layers(std::vector<std::string>& unused);

}  // namespace tp
