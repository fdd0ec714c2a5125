#include "model/weights/unused_tensors.h"

#include "model/weights/checkpoint/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <map>

namespace tp {
namespace {

// Of which a message names each.
constexpr std::size_t kFew = 8;

bool is_buffer(const TensorNames& names, const std::string& tensor) {
  return std::ranges::any_of(names.buffers, [&](const std::string& end) { return tensor.ends_with(end); });
}

bool is_of_ignored_block(const TensorNames& names, const std::string& tensor) {
  return std::ranges::any_of(names.ignored_blocks, [&](std::size_t block) {
    return tensor.starts_with(names.blocks + std::to_string(block) + ".");
  });
}

// The tensors, or one entry for all of a part that has many, such as a vision tower. Parts are what names
// begin with.
std::vector<std::string> summary_of(const std::vector<std::string>& tensors) {
  std::map<std::string, std::vector<std::string>> parts;
  for (const std::string& tensor : tensors) parts[tensor.substr(0, tensor.find('.'))].push_back(tensor);
  std::vector<std::string> entries;
  for (const auto& [part, members] : parts) {
    if (members.size() > kFew)
      entries.push_back(fmt::format("{}.* ({} tensors)", part, members.size()));
    else
      entries.insert(entries.end(), members.begin(), members.end());
  }
  return entries;
}

}  // namespace

std::vector<std::string> find_unused_tensors(const TensorNames& names, const WeightSource& source,
                                             TpRank tp) {
  std::vector<std::string> unused;
  if (!tp.is_first()) return unused;
  std::size_t of_ignored_blocks = 0;
  for (const std::string& tensor : source.unread()) {
    if (is_buffer(names, tensor)) continue;
    if (is_of_ignored_block(names, tensor)) {
      ++of_ignored_blocks;
      continue;
    }
    require<CheckpointError>(!tensor.starts_with(names.blocks),
                             "the checkpoint has a tensor {} that a model of its config.json does not use; "
                             "config.json and the weights must be of the same model",
                             printable(tensor));
    unused.push_back(tensor);
  }
  unused = summary_of(unused);
  if (of_ignored_blocks != 0) {
    unused.push_back(fmt::format("{}{}.* ({} tensors for the prediction of more tokens at a time)",
                                 names.blocks, names.ignored_blocks.front(), of_ignored_blocks));
  }
  return unused;
}

}  // namespace tp
