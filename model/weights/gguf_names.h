// Maps tensors of a Hugging Face checkpoint to tensors of a GGUF file, and reverses rearrangements.
//
// Layers request tensors by the names of Hugging Face checkpoints, and expect the rows, columns and values of
// these checkpoints. TensorNames contains the names in GGUF files. GgufNames reverses, by index, the changes
// of GGUF's converters.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/weights/gguf/gguf_header.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "model/weights/gguf/gguf_place.h"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp {

GgufHeads heads_of(const ModelSpec& spec);

class GgufNames {
 public:
  // Throws ConfigError if the model's family is not supported, and CheckpointError if its metadata lacks the
  // number of heads.
  explicit GgufNames(const ModelMetadata& model);
  // For a model that is not in a file yet.
  GgufNames(const TensorNames& names, const GgufHeads& heads);

  // Returns nothing if the family has no tensor with this name.
  std::optional<GgufPlace> find(std::string_view name) const;

  // The parts of a projection of queries, keys and values that the file stores separately.
  struct SeparateQkv {
    GgufOrder order{};                  // from the checkpoint's rows to all queries, all keys, all values
    std::array<GgufPlace, 3> parts{};   // queries, keys, values
    std::array<std::size_t, 3> rows{};  // queries, keys, values
  };
  // Returns nothing for other names.
  std::optional<SeparateQkv> find_separate_qkv(std::string_view name) const;

  // The place of a stack of experts' matrices that the checkpoint stores transposed. Files have no such
  // stacks, but writers can make theirs of it. Returns nothing for other names.
  std::optional<GgufPlace> find_transposed_stack(std::string_view name) const;

  // The place of a hash table that the file has outside of the blocks, or of one of its shards: rows of the
  // place's tensor, which begins with shard 0. Returns nothing for other names.
  std::optional<GgufPlace> find_table_part(std::string_view name) const;

  // The file's name of a tensor of the checkpoint, even if the family lacks the tensor.
  std::string in_file(const std::string& name) const;

  // The names of the checkpoint's tensors that a tensor of the file contains: several for a stack of experts,
  // none for a part of the config. If the family lacks the tensor, only the prefix of its block changes.
  std::vector<std::string> in_checkpoint(const GgufTensor& tensor) const;

 private:
  // Names and places of tensors, by patterns.
  struct Patterns {
    std::map<std::string, GgufPlace, std::less<>> places{};    // by the checkpoint's pattern
    std::map<std::string, std::string, std::less<>> stored{};  // from the file's patterns to the checkpoint's
  };

  void add(const std::string& name, GgufPlace place) { add(name, std::move(place), all_); }
  void add(const std::string& name, GgufPlace place, Patterns& patterns);
  // Adds a tensor of layers with a recurrence. Tensors of other layers may have the same name.
  void add_recurrent(const std::string& name, GgufPlace place);
  void add_separate_qkv(const BlockNames& names, const GgufContext& context);
  bool is_recurrent(std::span<const std::size_t> numbers) const;
  void add_block(const TensorNames& names, const GgufHeads& heads);
  void add_experts(const ExpertNames& names, const ExpertNames& stored);
  void add_drafter(const DrafterNames& names, const DrafterNames& stored);

  // Patterns: names of layers or tensors with # for the number of a block, then of an expert. A place's
  // `tensor` is the file's pattern.
  Patterns all_;
  Patterns recurrent_;                                        // replace those of `all_` in recurrent layers
  std::vector<bool> recurrent_layers_;                        // see GgufHeads
  std::map<std::string, GgufPlace, std::less<>> transposed_;  // see find_transposed_stack; by patterns
  std::map<std::string, SeparateQkv, std::less<>> separate_qkv_;  // by patterns
  // See find_table_part; by patterns without the shards' numbers.
  std::map<std::string, GgufPlace, std::less<>> table_parts_;
  std::string blocks_;  // "model.layers."
};

}  // namespace tp
