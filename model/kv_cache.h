// This rank's slice of the KV cache: the bytes. Which block holds what is decided in runtime/block_manager.
#pragma once

#include "model/buffer.h"
#include "model/kernels/packed_weight.h"
#include "model/kernels/paged_cache.h"

#include <cstddef>

namespace tp {

// Keys and values as precise as the weights that they come from.
constexpr KvType default_kv_type(WeightType weights) {
  return weights == WeightType::f32 || weights == WeightType::f16 ? KvType::f32 : KvType::bf16;
}

class KvCache {
 public:
  // Blocks of this layout for every layer. Memory is taken when a block is first written. Throws ConfigError
  // if not even addresses are left.
  KvCache(std::size_t num_layers, std::size_t num_blocks, const kernels::KvLayout& layout)
      : layer_{layout, nullptr, num_blocks},
        layer_bytes_(num_blocks * layout.block_bytes()),
        memory_(num_layers * layer_bytes_, "the KV cache") {}

  kernels::PagedCache layer(std::size_t index) const {
    kernels::PagedCache layer = layer_;
    layer.base = memory_.data() + index * layer_bytes_;
    return layer;
  }

  const kernels::KvLayout& layout() const { return layer_.layout; }
  std::size_t num_blocks() const { return layer_.num_blocks; }
  // Bytes when every block is in use.
  std::size_t capacity_bytes() const { return memory_.size(); }

 private:
  kernels::PagedCache layer_;
  std::size_t layer_bytes_;
  Buffer<std::byte> memory_;
};

}  // namespace tp
