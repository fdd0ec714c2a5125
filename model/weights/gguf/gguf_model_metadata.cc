#include "model/weights/gguf/gguf_model_metadata.h"

#include "tp/internal/require.h"

#include <utility>

namespace tp {
namespace {

constexpr const char* kHeads = "attention.head_count";
constexpr const char* kKvHeads = "attention.head_count_kv";
constexpr const char* kWindows = "attention.sliding_window_pattern";

// The number that all layers with a number have; nothing if they differ.
std::optional<std::uint64_t> common_number(const std::vector<std::uint64_t>& of_layers) {
  const std::uint64_t max = std::ranges::max(of_layers);
  const bool agree = std::ranges::all_of(of_layers, [&](std::uint64_t n) { return n == 0 || n == max; });
  return agree ? std::optional(max) : std::nullopt;
}

}  // namespace

// Returns nothing if layers of the same kind differ.
std::optional<std::uint64_t> ModelMetadata::number_of_layers(std::string_view key, bool with_window) const {
  std::vector<std::uint64_t> all = wholes(key);
  const std::optional<std::uint64_t> common = common_number(all);
  if (common || !has(kWindows)) return common;
  const std::vector<bool> windows = booleans(kWindows);
  for (std::size_t layer = 0; layer < std::min(all.size(), windows.size()); ++layer) {
    if (windows[layer] != with_window) all[layer] = 0;
  }
  return common_number(all);
}

// Layers of an unknown kind: shapes of tensors show whether the first layer's number is theirs.
std::uint64_t ModelMetadata::heads(bool with_window) const {
  if (!has(kWindows)) return wholes(kHeads).front();
  const std::optional<std::uint64_t> number = number_of_layers(kHeads, with_window);
  return number ? *number : whole(kHeads);  // throws CheckpointError
}

std::uint64_t ModelMetadata::kv_heads(bool with_window) const {
  if (!has(kKvHeads)) return heads();
  const std::optional<std::uint64_t> number = number_of_layers(kKvHeads, with_window);
  return number ? *number : whole(kKvHeads);  // throws CheckpointError
}

std::uint64_t ModelMetadata::rows_of_kv(std::size_t layer, const std::string& kind,
                                        std::uint64_t size) const {
  const auto of_layer = [&](const auto& list) { return list.at(std::min(layer, list.size() - 1)); };
  const std::string of_windows = "attention." + kind + "_length_swa";
  if (has(of_windows) && has(kWindows) && of_layer(booleans(kWindows))) size = whole(of_windows);
  return size * (has(kKvHeads) ? of_layer(wholes(kKvHeads)) : heads());
}

std::uint64_t ModelMetadata::recurrent_head_dim() const {
  const std::uint64_t heads = whole("ssm.time_step_rank");
  const std::uint64_t inner_size = whole("ssm.inner_size");
  require<CheckpointError>(
      heads != 0 && inner_size % heads == 0,
      "{}: expected an ssm.inner_size that is a multiple of ssm.time_step_rank, found {} and {}; convert the "
      "model again",
      files_.name(), inner_size, heads);
  return inner_size / heads;
}

std::vector<std::string> ModelMetadata::unasked(std::string_view begin) const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : metadata_.values()) {
    if (!key.starts_with(prefix_ + std::string(begin))) continue;
    if (std::string own = key.substr(prefix_.size()); !asked_.contains(own)) keys.push_back(std::move(own));
  }
  return keys;
}

}  // namespace tp
