// Memory for this rank's slice of the KV cache and of recurrent layers' states. runtime/cache/block_manager
// decides what each block contains.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/paged_cache.h"
#include "model/memory/buffer.h"
#include "model/memory/cache_groups.h"
#include "model/memory/cache_slices.h"
#include "model/memory/state_cache.h"
#include "parallel/exchange/host_region.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tp {

// Keys and values have the precision of the weights from which they are computed.
constexpr KvType default_kv_type(WeightType weights) {
  return weights == WeightType::f32 || weights == WeightType::f16 ? KvType::f32 : KvType::bf16;
}

// Bytes of a block, which has room for the keys and values of any one group's layers. With `slices`, the
// average of the bytes that the rank owns.
std::size_t block_bytes(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups,
                        const CacheSlices& slices = {});
// Bytes of a block on the whole host.
std::size_t host_block_bytes(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups,
                             const CacheSlices& slices);

// Memory for the cache of all ranks on a host, [blocks, host_block_bytes()].
struct HostCache {
  CacheSlices slices{};
  std::unique_ptr<HostRegion> region{};  // null: the cache is private
};

class KvCache {
 public:
  // `groups`: the groups of the model whose layers have the layouts `layers`. A block takes memory when it is
  // first written. Throws ConfigError if the address space is exhausted.
  KvCache(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups, std::size_t num_blocks,
          StateCache states = {}, HostCache host = {});
  // All layers in one group.
  KvCache(const std::vector<kernels::KvLayout>& layers, std::size_t num_blocks, StateCache states = {})
      : KvCache(layers, CacheGroups::one(layers.size()), num_blocks, std::move(states)) {}

  const kernels::PagedCache& layer(std::size_t index) const { return layers_[index]; }
  // The layer's group; 0 for a recurrent layer.
  std::size_t group(std::size_t layer) const { return places_[layer].value_or(CacheGroups::Place{}).group; }
  std::size_t groups() const { return groups_; }
  const StateCache& states() const { return states_; }
  // The region in which other ranks write keys and values that this rank reads in the layer; null: there are
  // none.
  HostRegion* shared(std::size_t layer) const {
    return host_.slices.are_shared(layer) ? host_.region.get() : nullptr;
  }
  // Bytes of the rank's part if all blocks and state slots are in use.
  std::size_t capacity_bytes() const { return block_bytes_ + states_.capacity_bytes(); }

 private:
  void divide_heads(std::size_t layer);

  std::size_t groups_;
  std::vector<std::optional<CacheGroups::Place>> places_;  // [layers]
  HostCache host_;
  Buffer<std::byte>
      memory_;  // by part of a block; groups share the parts; empty if the host's ranks share memory
  std::size_t block_bytes_;                              // bytes of all blocks
  std::vector<std::vector<kernels::BlockRange>> owned_;  // [layers], see PagedCache
  std::vector<kernels::PagedCache> layers_;
  StateCache states_;
};

}  // namespace tp
