// DeepSeek's kv_b_proj, which newer GGUF files store as two stacks with one matrix per head.
#pragma once

#include "model/weights/gguf/gguf_files.h"
#include "parallel/shard/slice.h"
#include "tp/tensor.h"

#include <optional>
#include <string>

namespace tp {

// In the checkpoint, each head has its rows of keys, then its rows of values.
struct GgufSplitKvB {
  const GgufFiles::Entry* keys = nullptr;    // [heads, kv_lora_rank, qk_nope_head_dim]: transposed
  const GgufFiles::Entry* values = nullptr;  // [heads, v_head_dim, kv_lora_rank]
  float key_factor = 1.0F;                   // see gguf_factor.h
  float value_factor = 1.0F;

  // Finds the two stacks of `tensor`, for example "blk.3.attn_kv_b.weight". Returns nothing for other tensors
  // and if there are no stacks. Throws CheckpointError if the stacks' shapes do not match.
  static std::optional<GgufSplitKvB> find(const GgufFiles& files, const std::string& tensor);

  std::size_t heads() const { return keys->tensor.shape[0]; }
  std::size_t key_rows() const { return keys->tensor.shape[2]; }
  std::size_t value_rows() const { return values->tensor.shape[1]; }
  // The shape of the whole matrix in the checkpoint.
  MatrixShape shape() const { return {heads() * (key_rows() + value_rows()), keys->tensor.shape[1]}; }

  // Like MappedFile::will_need, for the heads that contain `rows`.
  void will_need(Range rows) const;
  // Reads a slice of the matrix. Returns the bytes of the blocks that it reads.
  std::size_t read(const TensorSlice& slice, TensorView<float> out) const;

 private:
  std::size_t read_keys(std::size_t head, Range rows, Range columns, TensorView<float> out) const;
  std::size_t read_values(std::size_t head, Range rows, Range columns, TensorView<float> out) const;
};

}  // namespace tp
