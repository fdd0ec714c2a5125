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
#include "parallel/shard/shard.h"
#include "parallel/shard/slice.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The order of a tensor's rows, or of its columns, in the file.
struct GgufOrder {
  enum class Kind : std::uint8_t {
    as_it_was,
    // The two halves of a head, which RoPE rotates together, are interleaved: 0, d/2, 1, ...
    interleaved,
    // The checkpoint has a group's query heads, key head and value head together. The file has all queries
    // first, then all keys, then all values.
    by_kind,
    // The first head of each group, then the second head of each group, and so on.
    tiled,
  };
  // Adjacent places, from `begin` on in the checkpoint, that are also adjacent in the file.
  struct Run {
    std::size_t begin = 0;
    Range stored;
  };

  Kind kind = Kind::as_it_was;
  std::size_t head_dim = 0;
  std::size_t groups = 0;     // by_kind, tiled: number of key heads
  std::size_t per_group = 0;  // heads per group: query heads (by_kind) or value heads (tiled)
  std::size_t first = 0;      // tiled: number of places before the heads

  bool keeps_places() const { return kind == Kind::as_it_was; }
  // Whether a tensor with `rows` rows (or columns) can have this order.
  bool fits(std::size_t rows) const;
  // The file's place for the checkpoint's place `place`.
  std::size_t stored(std::size_t place) const;
  // The checkpoint's `places` as runs, in the checkpoint's order.
  std::vector<Run> runs(Range places) const;
  // The file's places for `places`, in the file's order.
  std::vector<Range> stored_ranges(Range places) const;
};

struct GgufPlace {
  std::string tensor{};                 // "blk.3.attn_q.weight"
  std::optional<std::size_t> expert{};  // index in a stack [experts, rows, columns]
  bool is_stack = false;                // the whole stack, as a matrix [experts * rows, columns]
  GgufOrder rows{};
  GgufOrder columns{};
  std::string second_half{};  // the tensor with the second half of the rows; `tensor` contains the first
  // The length of the rows in which the file stores a vector as a matrix; 0: as a vector.
  std::size_t vector_row = 0;
  bool has_extent_1 = false;     // the file stores a matrix as [rows, 1, columns]
  bool is_transposed = false;    // the checkpoint's matrix is the transpose of the file's
  float addend = 0.0F;           // add to the file's values to get the checkpoint's
  bool is_negative_exp = false;  // the file stores -exp(value)
  std::string list{};            // metadata key of a number for each layer, instead of a tensor

  // The shape in the checkpoint of a tensor with these extents in the file: of one expert's matrix in a
  // stack, or of all experts' matrices, one below the other. A vector is a matrix with one row. Returns
  // nothing for other shapes, apart from extents of 1 that files may have.
  std::optional<MatrixShape> matrix_shape(const std::vector<std::size_t>& extents) const;

  // Converts a value from the file to the checkpoint, and back.
  float restored(float stored) const { return is_negative_exp ? std::log(-stored) : stored + addend; }
  float stored(float value) const { return is_negative_exp ? -std::exp(value) : value - addend; }
  bool keeps_values() const { return addend == 0.0F && !is_negative_exp; }
};

// The sizes on which the order of rows depends.
struct GgufHeads {
  std::size_t heads = 1;
  std::size_t kv_heads = 1;
  std::size_t head_dim = 0;
  // Heads of layers with a gated delta net.
  std::size_t delta_key_heads = 1;
  std::size_t delta_value_heads = 1;
  std::size_t delta_key_dim = 0;
  std::size_t delta_value_dim = 0;
  std::size_t mamba_group = 0;  // elements of a group of Mamba-2's heads
};
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

  // The file's name of a tensor of the checkpoint, even if the family lacks the tensor.
  std::string in_file(const std::string& name) const;

  // The names of the checkpoint's tensors that a tensor of the file contains: several for a stack of experts,
  // none for a part of the config. If the family lacks the tensor, only the prefix of its block changes.
  std::vector<std::string> in_checkpoint(const GgufTensor& tensor) const;

 private:
  void add(const std::string& name, GgufPlace place);
  void add_block(const TensorNames& names, const GgufHeads& heads);
  void add_mamba(const MambaNames& names, const MambaNames& stored, const GgufHeads& heads);
  void add_gated_mlp(const GatedMlpNames& names, const GatedMlpNames& stored);
  void add_delta_net(const GatedDeltaNetNames& names, const GgufTensorNames& gguf, const GgufHeads& heads);
  void add_experts(const ExpertNames& names, const ExpertNames& stored);

  // Patterns: names of layers or tensors with # for the number of a block, then of an expert.
  std::map<std::string, GgufPlace, std::less<>>
      places_;  // by the checkpoint's pattern; `tensor` is the file's pattern
  std::map<std::string, std::string, std::less<>> stored_;  // from the file's patterns to the checkpoint's
  std::string blocks_;                                      // "model.layers."
};

}  // namespace tp
