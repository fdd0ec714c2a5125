// This rank's slice of the KV cache: the bytes. Which block holds what is decided in
// runtime/engine/block_manager.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/paged_cache.h"
#include "model/memory/buffer.h"

#include <cstddef>
#include <vector>

namespace tp {

// Keys and values as precise as the weights that they come from.
constexpr KvType default_kv_type(WeightType weights) {
  return weights == WeightType::f32 || weights == WeightType::f16 ? KvType::f32 : KvType::bf16;
}

// Bytes of a block in all of these layers.
inline std::size_t block_bytes(const std::vector<kernels::KvLayout>& layers) {
  std::size_t bytes = 0;
  for (const kernels::KvLayout& layout : layers) bytes += layout.block_bytes();
  return bytes;
}

class KvCache {
 public:
  // So many blocks in every layer. Memory is taken when a block is first written. Throws ConfigError if not
  // even addresses are left.
  KvCache(const std::vector<kernels::KvLayout>& layers, std::size_t num_blocks)
      : memory_(num_blocks * block_bytes(layers), "the KV cache") {
    std::byte* base = memory_.data();
    for (const kernels::KvLayout& layout : layers) {
      layers_.push_back({layout, base, num_blocks});
      base += num_blocks * layout.block_bytes();
    }
  }

  const kernels::PagedCache& layer(std::size_t index) const { return layers_[index]; }
  // Bytes when every block is in use.
  std::size_t capacity_bytes() const { return memory_.size(); }

 private:
  Buffer<std::byte> memory_;
  std::vector<kernels::PagedCache> layers_;
};

}  // namespace tp
