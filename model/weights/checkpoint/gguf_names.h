// Where a tensor of a Hugging Face checkpoint is in a GGUF file, and how it was rearranged on its way there.
//
// The program knows tensors by the names of Hugging Face checkpoints (tensor_names.h), and rows, columns and
// values as they are there. What GGUF's converters have done to them is undone here, by index.
#pragma once

#include "model/weights/checkpoint/gguf_header.h"
#include "model/weights/checkpoint/gguf_metadata.h"

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
    // The halves of a head, which rotary positions turn against each other, are interleaved: 0, d/2, 1, ...
    pairs,
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
  std::string tensor;                 // "blk.3.attn_q.weight"
  std::optional<std::size_t> expert;  // the tensor is a stack [experts, rows, columns], and this one is meant
  GgufRowOrder rows;
  bool is_transposed = false;  // in the checkpoint, with regard to the file
  float addend = 0.0F;         // what makes the file's values the checkpoint's
};

class GgufNames {
 public:
  // `metadata` is that of the model; `has_two_norms`: its blocks have a tensor attn_norm_2 (Falcon).
  GgufNames(const GgufMetadata& metadata, bool has_two_norms);

  // Nothing for a name that the family does not have.
  std::optional<GgufPlace> find(std::string_view name) const;

  // The names of the checkpoint's tensors that one of the file holds: several for a stack of experts, none
  // for what belongs to the config. A tensor that the family does not have keeps its name, that of its block
  // apart.
  std::vector<std::string> in_checkpoint(const GgufTensor& tensor) const;

 private:
  void add_arrangement(std::string_view layer, GgufPlace& place) const;

  std::string architecture_;  // "llama"
  // Of layers, with # for numbers.
  std::map<std::string_view, std::string_view> names_;             // the checkpoint's to the file's
  std::map<std::string_view, std::string_view> checkpoint_names_;  // the other way round
  std::size_t head_dim_ = 0;
  std::size_t kv_heads_ = 1;
  std::size_t queries_per_kv_ = 1;
};

}  // namespace tp
