// Tensors that some GGUF files store as a part of a larger tensor. llama.cpp's converter stores queries, keys
// and values of any family as one tensor, if it runs with --fuse-qkv.
#pragma once

#include "model/weights/gguf/gguf_files.h"
#include "parallel/shard/shard.h"

#include <string>

namespace tp {

// A tensor of a file, or some of its rows. Elements of a vector count as rows.
struct GgufRows {
  const GgufFiles::Entry* entry = nullptr;  // null: the files lack the tensor
  Range rows{};                             // empty: all rows

  bool is_whole() const { return rows.size() == 0; }
};

// Finds a tensor, or else its part of a tensor that contains queries, keys and values: for
// "blk.3.attn_k.weight", rows of "blk.3.attn_qkv.weight". Throws CheckpointError for invalid metadata.
GgufRows find_gguf_rows(const GgufFiles& files, const std::string& tensor);

}  // namespace tp
