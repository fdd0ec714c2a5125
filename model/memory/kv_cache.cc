#include "model/memory/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tp {
namespace {

using Layouts = std::vector<kernels::KvLayout>;
using LayerBytes = std::vector<std::size_t>;  // [layers], bytes of a layer in a block

LayerBytes bytes_of(const Layouts& layers) {
  LayerBytes bytes;
  for (const kernels::KvLayout& layout : layers) bytes.push_back(layout.block_bytes());
  return bytes;
}

// The rank's average bytes in a block.
LayerBytes owned_bytes(const Layouts& layers, const CacheSlices& slices) {
  LayerBytes bytes;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const double heads = slices.owned_heads(layer, layers[layer].kv_heads);
    bytes.push_back(
        static_cast<std::size_t>(std::ceil(heads * static_cast<double>(layers[layer].head_bytes()))));
  }
  return bytes;
}

// The layouts of a rank that has all heads of the host.
Layouts on_host(Layouts layers, const CacheSlices& slices) {
  for (std::size_t layer = 0; layer < slices.layers.size(); ++layer)
    layers[layer].kv_heads = slices.layers[layer].heads();
  return layers;
}

// The ranges of a block's bytes that the group's slots take, one after the other. A slot has the bytes of its
// largest layer.
std::vector<Range> slots_of(std::size_t group, const LayerBytes& layers, const CacheGroups& groups) {
  std::vector<std::size_t> bytes(groups.slots, 0);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::optional<CacheGroups::Place>& place = groups.places[layer];
    if (place && place->group == group) bytes[place->slot] = std::max(bytes[place->slot], layers[layer]);
  }
  std::vector<Range> slots;
  std::size_t begin = 0;
  for (const std::size_t own : bytes) {
    slots.push_back({begin, begin + own});
    begin += own;
  }
  return slots;
}

// [groups][slots]
std::vector<std::vector<Range>> all_slots(const LayerBytes& layers, const CacheGroups& groups) {
  std::vector<std::vector<Range>> slots;
  for (std::size_t group = 0; group < groups.windows.size(); ++group)
    slots.push_back(slots_of(group, layers, groups));
  return slots;
}

// Divides a block into the most parts such that each slot lies in one part.
std::vector<Range> parts_of_block(const std::vector<std::vector<Range>>& slots) {
  std::set<std::size_t> ends;
  for (const auto& group : slots) {
    for (const Range& slot : group) ends.insert(slot.end);
  }
  std::vector<Range> parts;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const bool divides_slot = std::ranges::any_of(slots, [&](const auto& group) {
      return std::ranges::any_of(group, [&](Range slot) { return slot.begin < end && end < slot.end; });
    });
    if (end == begin || divides_slot) continue;
    parts.push_back({begin, end});
    begin = end;
  }
  return parts;
}

std::size_t bytes_of_block(const std::vector<Range>& parts) { return parts.empty() ? 0 : parts.back().end; }

std::size_t bytes_of_block(const LayerBytes& layers, const CacheGroups& groups) {
  return bytes_of_block(parts_of_block(all_slots(layers, groups)));
}

}  // namespace

std::size_t block_bytes(const Layouts& layers, const CacheGroups& groups, const CacheSlices& slices) {
  return bytes_of_block(owned_bytes(layers, slices), groups);
}

std::size_t host_block_bytes(const Layouts& layers, const CacheGroups& groups, const CacheSlices& slices) {
  return bytes_of_block(bytes_of(on_host(layers, slices)), groups);
}

// Each part of the blocks is contiguous in memory, so that a layer's blocks are as close together as
// possible.
KvCache::KvCache(const Layouts& layers, const CacheGroups& groups, std::size_t num_blocks, StateCache states,
                 HostCache host)
    : groups_(groups.windows.size()),
      places_(groups.places),
      host_(std::move(host)),
      memory_(host_.region ? 0 : num_blocks * block_bytes(layers, groups), kCacheMemory),
      block_bytes_(num_blocks * block_bytes(layers, groups, host_.slices)),
      owned_(layers.size()),
      states_(std::move(states)) {
  const LayerBytes bytes = bytes_of(on_host(layers, host_.slices));
  const std::vector<std::vector<Range>> slots = all_slots(bytes, groups);
  const std::vector<Range> parts = parts_of_block(slots);
  std::byte* const memory = host_.region ? host_.region->data() : memory_.data();
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    kernels::PagedCache& cache = layers_.emplace_back();
    if (!places_[layer] || bytes[layer] == 0) continue;
    const std::size_t begin = slots[places_[layer]->group][places_[layer]->slot].begin;
    const Range part = *std::ranges::find_if(parts, [&](Range any) { return begin < any.end; });
    cache = {layers[layer], memory + num_blocks * part.begin + (begin - part.begin), part.size()};
    if (host_.region) divide_heads(layer);
  }
}

// Leaves the rank's own heads of a layer of the whole host.
void KvCache::divide_heads(std::size_t layer) {
  const HostHeads& heads = host_.slices.layers[layer];
  const Range own = heads.read_by(host_.slices.rank);
  for (std::size_t head = own.begin; head < own.end; ++head) {
    const Range owned = heads.owned_by(host_.slices.rank, head);
    owned_[layer].push_back({owned.begin, owned.end});
  }
  layers_[layer].base = layers_[layer].head(0, own.begin);
  layers_[layer].owned = owned_[layer];
}

}  // namespace tp
