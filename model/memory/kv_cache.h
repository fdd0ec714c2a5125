// This rank's slice of the KV cache: the bytes. Which block holds what is decided in
// runtime/engine/block_manager.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/paged_cache.h"
#include "model/memory/buffer.h"
#include "model/memory/cache_groups.h"

#include <cstddef>
#include <vector>

namespace tp {

// Keys and values as precise as the weights that they come from.
constexpr KvType default_kv_type(WeightType weights) {
  return weights == WeightType::f32 || weights == WeightType::f16 ? KvType::f32 : KvType::bf16;
}

// Bytes of a block, which holds the keys and values of the layers of one group.
std::size_t block_bytes(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups);

class KvCache {
 public:
  // Groups as of a model whose layers have these layouts. Memory is taken when a block is first written.
  // Throws ConfigError if not even addresses are left.
  KvCache(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups, std::size_t num_blocks);
  // All layers in one group.
  KvCache(const std::vector<kernels::KvLayout>& layers, std::size_t num_blocks)
      : KvCache(layers, CacheGroups::one(layers.size()), num_blocks) {}

  const kernels::PagedCache& layer(std::size_t index) const { return layers_[index]; }
  // That the layer belongs to.
  std::size_t group(std::size_t layer) const { return places_[layer].group; }
  // How many there are.
  std::size_t groups() const { return groups_; }
  // Bytes when every block is in use.
  std::size_t capacity_bytes() const { return memory_.size(); }

 private:
  std::size_t groups_;
  std::vector<CacheGroups::Place> places_;  // [layers]
  Buffer<std::byte> memory_;                // slot by slot, the layers of which share its blocks
  std::vector<kernels::PagedCache> layers_;
};

}  // namespace tp
