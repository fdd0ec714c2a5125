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

#include <map>
#include <optional>
#include <string>
#include <string_view>
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

  // The place of a stack of experts' matrices that the checkpoint stores transposed. Files have no such
  // stacks, but writers can make theirs of it. Returns nothing for other names.
  std::optional<GgufPlace> find_transposed_stack(std::string_view name) const;

  // The file's name of a tensor of the checkpoint, even if the family lacks the tensor.
  std::string in_file(const std::string& name) const;

  // The names of the checkpoint's tensors that a tensor of the file contains: several for a stack of experts,
  // none for a part of the config. If the family lacks the tensor, only the prefix of its block changes.
  std::vector<std::string> in_checkpoint(const GgufTensor& tensor) const;

 private:
  void add(const std::string& name, GgufPlace place);
  void add_block(const TensorNames& names, const GgufHeads& heads);
  void add_experts(const ExpertNames& names, const ExpertNames& stored);

  // Patterns: names of layers or tensors with # for the number of a block, then of an expert.
  std::map<std::string, GgufPlace, std::less<>>
      places_;  // by the checkpoint's pattern; `tensor` is the file's pattern
  std::map<std::string, std::string, std::less<>> stored_;    // from the file's patterns to the checkpoint's
  std::map<std::string, GgufPlace, std::less<>> transposed_;  // see find_transposed_stack; by patterns
  std::string blocks_;                                        // "model.layers."
};

}  // namespace tp
