// The metadata of a model in a GGUF file.
#pragma once

#include "model/weights/gguf/gguf_files.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Looks up values whose keys begin with the architecture: "llama.block_count".
class ModelMetadata {
 public:
  explicit ModelMetadata(const GgufFiles& files)
      : files_(files),
        metadata_(files.metadata()),
        architecture_(metadata_.text("general.architecture")),
        prefix_(architecture_ + ".") {}

  const GgufFiles& files() const { return files_; }
  const std::string& architecture() const { return architecture_; }

  bool has(std::string_view key) const { return metadata_.has(full(key)); }
  std::uint64_t whole(std::string_view key) const { return metadata_.whole(full(key)); }
  std::uint64_t whole_or(std::string_view key, std::uint64_t otherwise) const {
    return metadata_.whole_or(full(key), otherwise);
  }
  std::vector<std::uint64_t> wholes(std::string_view key) const { return metadata_.wholes(full(key)); }
  double number(std::string_view key) const { return metadata_.number(full(key)); }
  double number_or(std::string_view key, double otherwise) const {
    return metadata_.number_or(full(key), otherwise);
  }
  bool boolean_or(std::string_view key, bool otherwise) const {
    return metadata_.boolean_or(full(key), otherwise);
  }
  std::string_view text_or(std::string_view key, std::string_view otherwise) const {
    return metadata_.text_or(full(key), otherwise);
  }

  std::vector<double> numbers(std::string_view key) const { return metadata_.numbers(full(key)); }
  std::vector<bool> booleans(std::string_view key) const { return metadata_.booleans(full(key)); }

  std::uint64_t heads() const { return whole("attention.head_count"); }
  // The number of KV heads in layers with keys and values. Other layers have 0, if the metadata is a list. If
  // layers with a window differ in size from layers without: the number of the former, or with `with_window`
  // false, of the latter.
  std::uint64_t kv_heads(bool with_window = true) const {
    if (!has("attention.head_count_kv")) return heads();
    std::vector<std::uint64_t> all = wholes("attention.head_count_kv");
    const auto agree = [&] {
      const std::uint64_t most = std::ranges::max(all);
      return std::ranges::all_of(all, [&](std::uint64_t n) { return n == 0 || n == most; });
    };
    if (!agree() && has("attention.key_length_swa")) {
      const std::vector<bool> windows = booleans("attention.sliding_window_pattern");
      for (std::size_t layer = 0; layer < std::min(all.size(), windows.size()); ++layer) {
        if (windows[layer] != with_window) all[layer] = 0;
      }
    }
    return agree() ? std::ranges::max(all) : whole("attention.head_count_kv");  // throws CheckpointError
  }
  std::uint64_t head_dim() const {
    return whole_or("attention.key_length", whole("embedding_length") / std::max<std::uint64_t>(1, heads()));
  }
  // The rows of a layer's keys, which are as many as the rows of its values; 0: the layer has none.
  std::uint64_t kv_rows(std::size_t layer) const {
    const auto of_layer = [&](const auto& list) { return list.at(std::min(layer, list.size() - 1)); };
    const bool has_two = has("attention.key_length_swa") && has("attention.sliding_window_pattern");
    const bool has_window = has_two && of_layer(booleans("attention.sliding_window_pattern"));
    const std::uint64_t size = has_window ? whole("attention.key_length_swa") : head_dim();
    return size * (has("attention.head_count_kv") ? of_layer(wholes("attention.head_count_kv")) : heads());
  }
  bool has_experts() const { return whole_or("expert_count", 0) != 0; }
  bool has_tensor(std::string_view name) const { return files_.find(name) != nullptr; }

  // The model's keys with the prefix `begin` that have not been looked up.
  std::vector<std::string> unasked(std::string_view begin) const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : metadata_.values()) {
      if (!key.starts_with(prefix_ + std::string(begin))) continue;
      if (std::string own = key.substr(prefix_.size()); !asked_.contains(own)) keys.push_back(std::move(own));
    }
    return keys;
  }

 private:
  std::string full(std::string_view key) const {
    asked_.emplace(key);
    return prefix_ + std::string(key);
  }

  const GgufFiles& files_;
  const GgufMetadata& metadata_;
  std::string architecture_;
  std::string prefix_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace tp
