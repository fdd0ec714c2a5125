// Memory for this rank's slice of the KV cache and of recurrent layers' states. runtime/cache/block_manager
// decides what each block contains.
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

// Keys and values have the precision of the weights from which they are computed.
constexpr KvType default_kv_type(WeightType weights) {
  return weights == WeightType::f32 || weights == WeightType::f16 ? KvType::f32 : KvType::bf16;
}

// Bytes of a block, which has room for the keys and values of any one group's layers.
std::size_t block_bytes(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups);

class KvCache {
 public:
  // `groups`: the groups of the model whose layers have the layouts `layers`. A block takes memory when it is
  // first written. Throws ConfigError if the address space is exhausted.
  KvCache(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups, std::size_t num_blocks,
          StateCache states = {});
  // All layers in one group.
  KvCache(const std::vector<kernels::KvLayout>& layers, std::size_t num_blocks, StateCache states = {})
      : KvCache(layers, CacheGroups::one(layers.size()), num_blocks, std::move(states)) {}

  const kernels::PagedCache& layer(std::size_t index) const { return layers_[index]; }
  // The layer's group; 0 for a recurrent layer.
  std::size_t group(std::size_t layer) const { return places_[layer].value_or(CacheGroups::Place{}).group; }
  std::size_t groups() const { return groups_; }
  const StateCache& states() const { return states_; }
  // Bytes if all blocks and state slots are in use.
  std::size_t capacity_bytes() const { return memory_.size() + states_.capacity_bytes(); }

 private:
  std::size_t groups_;
  std::vector<std::optional<CacheGroups::Place>> places_;  // [layers]
  Buffer<std::byte> memory_;                               // by part of a block; groups share the parts
  std::vector<kernels::PagedCache> layers_;
  StateCache states_;
};

}  // namespace tp
