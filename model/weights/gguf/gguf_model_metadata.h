// The metadata of a model in a GGUF file.
#pragma once

#include "model/weights/gguf/gguf_files.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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
  std::vector<std::uint64_t> exact_wholes(std::string_view key) const {
    return metadata_.exact_wholes(full(key));
  }
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
  std::vector<std::string_view> texts(std::string_view key) const { return metadata_.texts(full(key)); }

  // The original checkpoint's config.json, which a few files carry instead of numbers; empty: none.
  std::string_view carried_config() const { return text_or("config", ""); }

  // Whether a value that is there is a list.
  bool is_list(std::string_view key) const { return metadata_.values().find(full(key))->second.is_list; }

  // The number of query heads. If layers differ, it is the number of those without a window, or with
  // `with_window`, of those with one.
  std::uint64_t heads(bool with_window = false) const;
  // The number of KV heads in layers with keys and values. Other layers have 0, if the metadata is a list. If
  // layers with a window differ from layers without: the number of the former, or with `with_window` false,
  // of the latter.
  std::uint64_t kv_heads(bool with_window = true) const;
  std::uint64_t head_dim() const {
    return whole_or("attention.key_length", whole("embedding_length") / std::max<std::uint64_t>(1, heads()));
  }
  // The size of a value.
  std::uint64_t value_dim() const { return whole_or("attention.value_length", head_dim()); }
  // The rows of a layer's keys and of its values; 0: the layer has none.
  std::uint64_t key_rows(std::size_t layer) const { return rows_of_kv(layer, "key", head_dim()); }
  std::uint64_t value_rows(std::size_t layer) const { return rows_of_kv(layer, "value", value_dim()); }
  // The size of a head of a recurrence, whose heads divide ssm.inner_size. Throws CheckpointError.
  std::uint64_t recurrent_head_dim() const;
  bool has_experts() const { return whole_or("expert_count", 0) != 0; }
  bool has_tensor(std::string_view name) const { return files_.find(name) != nullptr; }

  // The model's keys with the prefix `begin` that have not been looked up.
  std::vector<std::string> unasked(std::string_view begin) const;

 private:
  std::optional<std::uint64_t> number_of_layers(std::string_view key, bool with_window) const;
  std::uint64_t rows_of_kv(std::size_t layer, const std::string& kind, std::uint64_t size) const;
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
