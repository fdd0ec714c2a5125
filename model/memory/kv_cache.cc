#include "model/memory/kv_cache.h"

#include <algorithm>
#include <numeric>

namespace tp {
namespace {

// Bytes of each slot in a block: those that the slot's largest layer needs.
std::vector<std::size_t> slot_bytes(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups) {
  std::vector<std::size_t> bytes(groups.slots, 0);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::size_t own = layers[layer].block_bytes();
    if (own == 0) continue;
    std::size_t& slot = bytes[groups.places[layer]->slot];
    slot = std::max(slot, own);
  }
  return bytes;
}

}  // namespace

std::size_t block_bytes(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups) {
  const std::vector<std::size_t> bytes = slot_bytes(layers, groups);
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

KvCache::KvCache(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups,
                 std::size_t num_blocks, StateCache states)
    : groups_(groups.windows.size()),
      places_(groups.places),
      memory_(num_blocks * block_bytes(layers, groups), kCacheMemory),
      states_(std::move(states)) {
  const std::vector<std::size_t> bytes = slot_bytes(layers, groups);
  std::vector<std::size_t> offsets(bytes.size());  // offset of each slot in one block
  std::exclusive_scan(bytes.begin(), bytes.end(), offsets.begin(), std::size_t{0});
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::optional<CacheGroups::Place>& place = places_[layer];
    layers_.push_back(place ? kernels::PagedCache{layers[layer],
                                                  memory_.data() + num_blocks * offsets[place->slot],
                                                  num_blocks}
                            : kernels::PagedCache{});
  }
}

}  // namespace tp
