// Memory for this rank's slice of the KV cache and of recurrent layers' states. runtime/cache/block_manager
// decides what each block contains.
#pragma once

#include "model/kernels/packed_weight.h"
#include "model/kernels/paged_cache.h"
#include "model/memory/buffer.h"
#include "model/memory/cache_groups.h"
#include "model/memory/cache_slices.h"
#include "model/memory/shared_layer.h"
#include "model/memory/state_cache.h"
#include "parallel/exchange/host_region.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
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

// The cache of all ranks on a host.
struct HostCache {
  CacheSlices slices{};
  std::size_t max_blocks = 0;            // largest number of blocks of a sequence
  std::unique_ptr<HostRegion> region{};  // has region_bytes() bytes; null: the cache is private

  // Bytes for `blocks` blocks of layers with these layouts, and for the exchange of queries, results and
  // lists.
  std::size_t region_bytes(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups,
                           std::size_t blocks) const;
  // Bytes of memory, besides the blocks, that this rank needs for the exchange.
  std::size_t exchange_bytes(const std::vector<kernels::KvLayout>& layers) const;
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
  // The layer's cache on the whole host; null if the cache is private.
  const SharedLayer* shared(std::size_t layer) const {
    return !shared_.empty() && shared_[layer].region != nullptr ? &shared_[layer] : nullptr;
  }
  // The memory shared with other ranks where this rank's blocks lie. Between the blocks of a rank that owns
  // some of a layer's heads, there are other ranks' heads.
  std::vector<std::span<const std::byte>> own_shared_memory() const;
  // Bytes, besides the blocks, for attention that the ranks of the host divide.
  std::size_t exchange_bytes() const { return exchange_bytes_; }
  // Bytes of the rank's part if all blocks and state slots are in use.
  std::size_t capacity_bytes() const { return block_bytes_ + states_.capacity_bytes(); }

 private:
  void share_layers(const std::vector<kernels::KvLayout>& host_layouts, std::size_t blocks);

  std::size_t groups_;
  std::vector<std::optional<CacheGroups::Place>> places_;  // [layers]
  HostCache host_;
  Buffer<std::byte>
      memory_;  // by part of a block; groups share the parts; empty if the host's ranks share memory
  std::size_t exchange_bytes_;
  std::size_t block_bytes_;                              // bytes of all blocks
  std::vector<std::vector<kernels::BlockRange>> owned_;  // [layers][the host's KV heads], see PagedCache
  Buffer<float> scratch_;                                // see SharedLayer
  std::unique_ptr<TopLists> lists_;                      // see SharedLayer
  std::vector<SharedLayer> shared_;                      // [layers]; empty if the cache is private
  std::vector<kernels::PagedCache> layers_;
  StateCache states_;
};

}  // namespace tp
