#include "model/weights/unused_tensors.h"

#include "model/weights/checkpoint/printable.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp {
namespace {

bool holds_no_weights(const TensorNames& names, const std::string& tensor) {
  return std::any_of(names.buffers.begin(), names.buffers.end(),
                     [&](const std::string& end) { return tensor.ends_with(end); }) ||
         std::any_of(names.ignored_blocks.begin(), names.ignored_blocks.end(), [&](std::size_t block) {
           return tensor.starts_with(names.blocks + std::to_string(block) + ".");
         });
}

}  // namespace

std::vector<std::string> find_unused_tensors(const TensorNames& names, const WeightSource& source,
                                             TpRank tp) {
  std::vector<std::string> unused;
  if (!tp.is_first()) return unused;
  for (const std::string& tensor : source.unread()) {
    if (holds_no_weights(names, tensor)) continue;
    require<CheckpointError>(!tensor.starts_with(names.blocks),
                             "the checkpoint has a tensor {} that a model of its config.json does not use; "
                             "config.json and the weights must be of the same model",
                             printable(tensor));
    unused.push_back(tensor);
  }
  return unused;
}

}  // namespace tp
