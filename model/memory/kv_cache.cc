#include "model/memory/kv_cache.h"

#include <numeric>

namespace tp {
namespace {

// Bytes of a block in every slot. Layers in the same slot take the same.
std::vector<std::size_t> slot_bytes(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups) {
  std::vector<std::size_t> bytes(groups.slots, 0);
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    bytes[groups.places[layer].slot] = layers[layer].block_bytes();
  return bytes;
}

}  // namespace

std::size_t block_bytes(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups) {
  const std::vector<std::size_t> bytes = slot_bytes(layers, groups);
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

KvCache::KvCache(const std::vector<kernels::KvLayout>& layers, const CacheGroups& groups,
                 std::size_t num_blocks)
    : groups_(groups.windows.size()),
      places_(groups.places),
      memory_(num_blocks * block_bytes(layers, groups), kCacheMemory) {
  const std::vector<std::size_t> bytes = slot_bytes(layers, groups);
  std::vector<std::size_t> offsets(bytes.size());  // of every slot, of one block
  std::exclusive_scan(bytes.begin(), bytes.end(), offsets.begin(), std::size_t{0});
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    layers_.push_back(
        {layers[layer], memory_.data() + num_blocks * offsets[places_[layer].slot], num_blocks});
}

}  // namespace tp
