// This rank's slice of the KV cache, and of the states of recurrent layers: the bytes. Which block holds what
// is decided in runtime/cache/block_manager.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/paged_cache.h"
#include "model/memory/buffer.h"
#include "model/memory/cache_groups.h"
#include "model/memory/state_cache.h"

#include <cstddef>
#include <optional>
#include <utility>
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
  KvCache(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups, std::size_t num_blocks,
          StateCache states = {});
  // All layers in one group.
  KvCache(const std::vector<kernels::KvLayout>& layers, std::size_t num_blocks, StateCache states = {})
      : KvCache(layers, CacheGroups::one(layers.size()), num_blocks, std::move(states)) {}

  const kernels::PagedCache& layer(std::size_t index) const { return layers_[index]; }
  // That the layer belongs to; 0 for a recurrent one.
  std::size_t group(std::size_t layer) const { return places_[layer].value_or(CacheGroups::Place{}).group; }
  // How many there are.
  std::size_t groups() const { return groups_; }
  const StateCache& states() const { return states_; }
  // Bytes when every block and every slot of states is in use.
  std::size_t capacity_bytes() const { return memory_.size() + states_.capacity_bytes(); }

 private:
  std::size_t groups_;
  std::vector<std::optional<CacheGroups::Place>> places_;  // [layers]
  Buffer<std::byte> memory_;  // slot by slot, the layers of which share its blocks
  std::vector<kernels::PagedCache> layers_;
  StateCache states_;
};

}  // namespace tp
