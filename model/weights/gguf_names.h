// Where a tensor of a Hugging Face checkpoint is in a GGUF file, and how it was rearranged on its way there.
//
// Layers ask for tensors by the names of Hugging Face checkpoints, and expect rows, columns and values as
// they are there. TensorNames says what they are called in GGUF files; what GGUF's converters did to them is
// undone here, by index.
#pragma once

#include "model/config/tensor_names.h"
#include "model/weights/gguf/gguf_header.h"
#include "model/weights/gguf/gguf_model_metadata.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The order of a tensor's rows in the file.
struct GgufRowOrder {
  enum class Kind : std::uint8_t {
    as_it_was,
    // The halves of a head, which RoPE rotates against each other, are interleaved: 0, d/2, 1, ...
    interleaved,
    // A group's query heads, key head and value head follow each other in the checkpoint; in the file all
    // queries come first, then all keys, then all values.
    by_kind,
  };

  Kind kind = Kind::as_it_was;
  std::size_t head_dim = 0;
  std::size_t groups = 0;             // by_kind: KV heads
  std::size_t queries_per_group = 0;  // by_kind

  // Whether a tensor of that many rows can be in this order.
  bool fits(std::size_t rows) const;
  // The file's row of the checkpoint's row `row`.
  std::size_t stored_row(std::size_t row) const;
};

struct GgufPlace {
  std::string tensor{};                 // "blk.3.attn_q.weight"
  std::optional<std::size_t> expert{};  // of a stack [experts, rows, columns]: which one
  GgufRowOrder rows{};
  bool is_transposed = false;    // in the checkpoint, with regard to the file
  float addend = 0.0F;           // what makes the file's values the checkpoint's
  bool is_negative_exp = false;  // the file has -exp(value)
  std::string list{};            // not a tensor, but numbers of all layers under this key of the metadata

  // The checkpoint's value of one in the file, and the other way around.
  float restored(float stored) const { return is_negative_exp ? std::log(-stored) : stored + addend; }
  float stored(float value) const { return is_negative_exp ? -std::exp(value) : value - addend; }
  bool keeps_values() const { return addend == 0.0F && !is_negative_exp; }
};

// What the order of rows depends on.
struct GgufHeads {
  std::size_t heads = 1;
  std::size_t kv_heads = 1;
  std::size_t head_dim = 0;
};

class GgufNames {
 public:
  // Throws ConfigError if the model is of a family that is not supported, and CheckpointError if its metadata
  // does not say how many heads it has.
  explicit GgufNames(const ModelMetadata& model);
  // Of a model that may not be in a file yet.
  GgufNames(const TensorNames& names, const GgufHeads& heads);

  // Nothing for a name that the family does not have.
  std::optional<GgufPlace> find(std::string_view name) const;

  // The names of the checkpoint's tensors that one of the file holds: several for a stack of experts, none
  // for what belongs to the config. A tensor that the family does not have keeps its name, that of its block
  // apart.
  std::vector<std::string> in_checkpoint(const GgufTensor& tensor) const;

 private:
  void add(const std::string& name, GgufPlace place);
  void add_block(const TensorNames& names, const GgufHeads& heads);
  void add_delta_net(const GatedDeltaNetNames& names, const GatedDeltaNetNames& stored);
  void add_experts(const ExpertNames& names, const ExpertNames& stored);

  // Patterns: names of layers or tensors with # for the number of a block and, after it, that of an expert.
  std::map<std::string, GgufPlace, std::less<>>
      places_;  // by the checkpoint's pattern; `tensor` is the file's
  std::map<std::string, std::string, std::less<>> stored_;  // the file's patterns to the checkpoint's
  std::string blocks_;                                      // "model.layers."
};

}  // namespace tp
