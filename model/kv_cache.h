// This rank's slice of the KV cache: the bytes. Which block holds what is decided in runtime/block_manager.
#pragma once

#include "model/buffer.h"
#include "model/kernels/attention.h"

#include <cstddef>

namespace tp {

class KvCache {
 public:
  // Blocks of `block_size` tokens for every layer and KV head of this rank. Memory is taken when a block is
  // first written. Throws ConfigError if not even addresses are left.
  KvCache(std::size_t num_layers, std::size_t num_blocks, std::size_t block_size, std::size_t local_kv_heads,
          std::size_t head_dim)
      : layer_{nullptr, num_blocks, local_kv_heads, block_size, head_dim},
        layer_floats_(num_blocks * local_kv_heads * 2 * block_size * head_dim),
        memory_(num_layers * layer_floats_, "the KV cache") {}

  kernels::PagedCache layer(std::size_t index) const {
    kernels::PagedCache layer = layer_;
    layer.base = memory_.data() + index * layer_floats_;
    return layer;
  }

  std::size_t num_blocks() const { return layer_.num_blocks; }
  std::size_t block_size() const { return layer_.block_size; }
  // Bytes when every block is in use.
  std::size_t capacity_bytes() const { return memory_.size() * sizeof(float); }

 private:
  kernels::PagedCache layer_;
  std::size_t layer_floats_;
  Buffer<float> memory_;
};

}  // namespace tp
