// The place of a checkpoint's tensor in a GGUF file, and how converters rearrange the tensor.
#pragma once

#include "parallel/shard/shard.h"
#include "parallel/shard/slice.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tp {

struct GgufContext;

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

// The prefix of a block's tensors, without the block's number.
inline const std::string kGgufBlock = "blk.#.";

// A tensor of the file that has some of the rows of the checkpoint's tensor.
struct GgufShare {
  std::string tensor{};
  std::size_t parts = 1;  // all rows are divided into so many equal parts
};

struct GgufPlace {
  std::string tensor{};                 // "blk.3.attn_q.weight"
  std::optional<std::size_t> expert{};  // index in a stack [experts, rows, columns]
  bool is_stack = false;                // the whole stack, as a matrix [experts * rows, columns]
  GgufOrder rows{};
  GgufOrder columns{};
  std::vector<GgufShare> shares{};  // tensors that have the rows, in this order; empty: `tensor` has them
  // The length of the rows in which the file stores a vector as a matrix; 0: as a vector.
  std::size_t vector_row = 0;
  // The length of the rows of a matrix that the file stores as a vector; 0: as a matrix.
  std::size_t matrix_row = 0;
  std::size_t extents_of_1 = 0;  // extents of 1 that the file has between rows and columns
  bool may_be_stack = false;     // files have the matrix itself, or its rows as a stack of equal matrices
  bool is_transposed = false;    // the checkpoint's matrix is the transpose of the file's
  float addend = 0.0F;           // add to the file's values to get the checkpoint's
  bool is_negative_exp = false;  // the file stores -exp(value)
  bool is_exp = false;           // the file stores exp(value)
  std::string list{};            // metadata key of a number for each layer, instead of a tensor

  // The shape in the checkpoint of a tensor with these extents in the file: of one expert's matrix in a
  // stack, or of all experts' matrices, one below the other. A vector is a matrix with one row. Returns
  // nothing for other shapes, apart from extents of 1 that files may have.
  std::optional<MatrixShape> matrix_shape(const std::vector<std::size_t>& extents) const;

  // Converts a value from the file to the checkpoint, and back.
  float restored(float stored) const {
    if (is_exp) return std::log(stored);
    return is_negative_exp ? std::log(-stored) : stored + addend;
  }
  float stored(float value) const {
    if (is_exp) return std::exp(value);
    return is_negative_exp ? -std::exp(value) : value - addend;
  }
  bool keeps_values() const { return addend == 0.0F && !is_negative_exp && !is_exp; }
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
  std::size_t mamba_group = 0;     // elements of a group of Mamba-2's heads
  std::size_t rwkv7_head_dim = 0;  // 0: no RWKV-7
  std::size_t index_heads = 1;     // heads of an indexer of pools
  // Whether each layer has a recurrence instead of attention; empty: no layer has one, or their tensors have
  // names of their own.
  std::vector<bool> recurrent_layers{};
};

// Arrangements of vectors that GGUF files store as a column: with the same values, or as -exp(value). A
// matrix of -exp(value). A matrix that may be a stack. A matrix with a further extent, 1.
inline GgufPlace gguf_column(const GgufContext& /*context*/) { return {.vector_row = 1}; }
inline GgufPlace gguf_column_of_exp(const GgufContext& /*context*/) {
  return {.vector_row = 1, .is_negative_exp = true};
}
inline GgufPlace gguf_exp(const GgufContext& /*context*/) { return {.is_negative_exp = true}; }
inline GgufPlace gguf_matrix_or_stack(const GgufContext& /*context*/) { return {.may_be_stack = true}; }
inline GgufPlace gguf_extent_1(const GgufContext& /*context*/) { return {.extents_of_1 = 1}; }

// A tensor, without "blk.N." and ".weight", with some of the rows.
inline GgufShare gguf_share(const std::string& layer, std::size_t parts = 1) {
  return {kGgufBlock + layer + ".weight", parts};
}

}  // namespace tp
