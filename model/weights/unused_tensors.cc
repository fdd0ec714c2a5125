#include "model/weights/unused_tensors.h"

#include "model/files/printable.h"
#include "model/weights/quantized/activation_scales.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp {
namespace {

constexpr const char* kOfNextTokenLayers = "tensors of multi-token prediction layers)";

bool is_buffer(const TensorNames& names, const std::string& tensor) {
  if (is_activation_scale(tensor)) return true;
  return std::ranges::any_of(names.buffers, [&](const std::string& end) { return tensor.ends_with(end); });
}

bool is_ignored(const TensorNames& names, const std::string& tensor) {
  return std::ranges::any_of(names.ignored_prefixes,
                             [&](const std::string& prefix) { return tensor.starts_with(prefix); });
}

bool is_of_ignored_layer(const TensorNames& names, const std::string& tensor) {
  return std::ranges::any_of(names.ignored_layers, [&](const std::string& layer) {
    return tensor.starts_with(names.blocks + layer + ".");
  });
}

bool is_of_ignored_block(const TensorNames& names, const std::string& tensor) {
  return std::ranges::any_of(names.ignored_blocks, [&](std::size_t block) {
    return tensor.starts_with(names.blocks + std::to_string(block) + ".");
  });
}

}  // namespace

std::vector<std::string> find_unused_tensors(const TensorNames& names, const WeightSource& source,
                                             std::span<const std::string> unread) {
  std::vector<std::string> unused;
  std::size_t of_ignored_blocks = 0;
  std::size_t ignored = 0;
  for (const std::string& tensor : unread) {
    if (is_buffer(names, tensor) || is_of_ignored_layer(names, tensor)) continue;
    if (is_of_ignored_block(names, tensor)) {
      ++of_ignored_blocks;
      continue;
    }
    if (is_ignored(names, tensor)) {
      ++ignored;
      continue;
    }
    require<CheckpointError>(
        !tensor.starts_with(names.blocks),
        "the checkpoint has a tensor {} that a model of its configuration does not use; "
        "the configuration (config.json, or a GGUF file's metadata) and the weights must "
        "be of the same model",
        printable(source.stored_name(tensor)));
    unused.push_back(source.stored_name(tensor));
  }
  const auto add = [&](const std::string& prefix, std::size_t tensors) {
    unused.push_back(fmt::format("{}* ({} {}", prefix, tensors, kOfNextTokenLayers));
  };
  if (of_ignored_blocks != 0)
    add(fmt::format("{}{}.", names.blocks, names.ignored_blocks.front()), of_ignored_blocks);
  if (ignored != 0) add(names.ignored_prefixes.front(), ignored);
  return unused;
}

std::size_t count_next_token_tensors(const TensorNames& names, const WeightSource& source) {
  const std::vector<std::string> all = source.names();
  return static_cast<std::size_t>(std::ranges::count_if(all, [&](const std::string& tensor) {
    return is_of_ignored_block(names, tensor) || is_ignored(names, tensor);
  }));
}

void leave_out_next_token_layers(std::vector<std::string>& unused) {
  std::erase_if(unused, [](const std::string& entry) { return entry.ends_with(kOfNextTokenLayers); });
}

}  // namespace tp
