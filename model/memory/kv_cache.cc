#include "model/memory/kv_cache.h"

#include <algorithm>
#include <set>

namespace tp {
namespace {

using Layouts = std::vector<kernels::KvLayout>;

// The ranges of a block's bytes that the group's slots take, one after the other. A slot has the bytes of its
// largest layer.
std::vector<Range> slots_of(std::size_t group, const Layouts& layers, const CacheGroups& groups) {
  std::vector<std::size_t> bytes(groups.slots, 0);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::optional<CacheGroups::Place>& place = groups.places[layer];
    if (place && place->group == group)
      bytes[place->slot] = std::max(bytes[place->slot], layers[layer].block_bytes());
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
std::vector<std::vector<Range>> all_slots(const Layouts& layers, const CacheGroups& groups) {
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

}  // namespace

std::size_t block_bytes(const Layouts& layers, const CacheGroups& groups) {
  return bytes_of_block(parts_of_block(all_slots(layers, groups)));
}

// Each part of the blocks is contiguous in memory, so that a layer's blocks are as close together as
// possible.
KvCache::KvCache(const Layouts& layers, const CacheGroups& groups, std::size_t num_blocks, StateCache states)
    : groups_(groups.windows.size()),
      places_(groups.places),
      memory_(num_blocks * block_bytes(layers, groups), kCacheMemory),
      states_(std::move(states)) {
  const std::vector<std::vector<Range>> slots = all_slots(layers, groups);
  const std::vector<Range> parts = parts_of_block(slots);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    kernels::PagedCache& cache = layers_.emplace_back();
    if (!places_[layer] || layers[layer].block_bytes() == 0) continue;
    const std::size_t begin = slots[places_[layer]->group][places_[layer]->slot].begin;
    const Range part = *std::ranges::find_if(parts, [&](Range any) { return begin < any.end; });
    cache = {layers[layer], memory_.data() + num_blocks * part.begin + (begin - part.begin), part.size()};
  }
}

}  // namespace tp
