#include "model/memory/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <omp.h>

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

std::size_t whole_lines(std::size_t bytes) {
  constexpr std::size_t kCacheLine = 64;
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

std::size_t list_bytes(const CacheSlices& slices) {
  return TopLists::elements(slices.ranks, slices.max_chosen) * sizeof(kernels::ScoredPosition);
}

std::size_t bytes_of_block(const std::vector<Range>& parts) { return parts.empty() ? 0 : parts.back().end; }

std::size_t bytes_of_block(const LayerBytes& layers, const CacheGroups& groups) {
  return bytes_of_block(parts_of_block(all_slots(layers, groups)));
}

std::unique_ptr<TopLists> lists_at(std::byte* memory, const CacheSlices& slices) {
  const std::span elements(reinterpret_cast<kernels::ScoredPosition*>(memory),
                           TopLists::elements(slices.ranks, slices.max_chosen));
  return std::make_unique<TopLists>(elements, slices.rank, slices.ranks);
}

}  // namespace

std::size_t block_bytes(const Layouts& layers, const CacheGroups& groups, const CacheSlices& slices) {
  return bytes_of_block(owned_bytes(layers, slices), groups);
}

std::size_t host_block_bytes(const Layouts& layers, const CacheGroups& groups, const CacheSlices& slices) {
  return bytes_of_block(bytes_of(on_host(layers, slices)), groups);
}

std::size_t HostCache::region_bytes(const Layouts& layers, const CacheGroups& groups,
                                    std::size_t blocks) const {
  return whole_lines(blocks * host_block_bytes(layers, groups, slices)) +
         whole_lines(exchange_floats(on_host(layers, slices), slices, max_blocks) * sizeof(float)) +
         list_bytes(slices);
}

std::size_t HostCache::exchange_bytes(const Layouts& layers) const {
  if (slices.layers.empty()) return 0;
  const Layouts layouts = on_host(layers, slices);
  const std::size_t threads = static_cast<std::size_t>(omp_get_max_threads());
  return sizeof(float) * (threads * host_scratch(layouts, slices, max_blocks) +
                          exchange_floats(layouts, slices, max_blocks) / slices.ranks) +
         list_bytes(slices) / slices.ranks;
}

// Each part of the blocks is contiguous in memory, so that a layer's blocks are as close together as
// possible.
KvCache::KvCache(const Layouts& layers, const CacheGroups& groups, std::size_t num_blocks, StateCache states,
                 HostCache host)
    : groups_(groups.windows.size()),
      places_(groups.places),
      host_(std::move(host)),
      memory_(host_.region ? 0 : num_blocks * block_bytes(layers, groups), kCacheMemory),
      exchange_bytes_(host_.exchange_bytes(layers)),
      block_bytes_(num_blocks * block_bytes(layers, groups, host_.slices)),
      owned_(layers.size()),
      states_(std::move(states)) {
  const Layouts host_layouts = on_host(layers, host_.slices);
  const LayerBytes bytes = bytes_of(host_layouts);
  const std::vector<std::vector<Range>> slots = all_slots(bytes, groups);
  const std::vector<Range> parts = parts_of_block(slots);
  std::byte* const memory = host_.region ? host_.region->data() : memory_.data();
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    kernels::PagedCache& cache = layers_.emplace_back();
    if (!places_[layer] || bytes[layer] == 0) continue;
    const std::size_t begin = slots[places_[layer]->group][places_[layer]->slot].begin;
    const Range part = *std::ranges::find_if(parts, [&](Range any) { return begin < any.end; });
    cache = {layers[layer], memory + num_blocks * part.begin + (begin - part.begin), part.size()};
  }
  if (host_.region) share_layers(host_layouts, num_blocks * bytes_of_block(parts));
}

std::vector<std::span<const std::byte>> KvCache::own_shared_memory() const {
  std::vector<std::span<const std::byte>> memory;
  for (const SharedLayer& layer : shared_) {
    const kernels::PagedCache& whole = layer.whole;
    for (std::size_t head = 0; head < whole.owned.size(); ++head) {
      const kernels::BlockRange blocks = whole.owned[head];
      if (blocks.begin == blocks.end) continue;
      const std::byte* const begin = whole.head(blocks.begin, head);
      memory.emplace_back(begin, whole.head(blocks.end - 1, head) + whole.layout.head_bytes());
    }
  }
  return memory;
}

// Leaves the rank its own heads of each layer of the host. `blocks`: bytes of all blocks.
void KvCache::share_layers(const Layouts& host_layouts, std::size_t blocks) {
  const CacheSlices& slices = host_.slices;
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t scratch = host_scratch(host_layouts, slices, host_.max_blocks);
  scratch_ = {threads * scratch, "attention of all heads of a host"};
  std::byte* const after_blocks = host_.region->data() + whole_lines(blocks);
  const std::span<float> exchange(reinterpret_cast<float*>(after_blocks),
                                  exchange_floats(host_layouts, slices, host_.max_blocks));
  if (slices.max_chosen != 0) lists_ = lists_at(after_blocks + whole_lines(exchange.size_bytes()), slices);
  shared_.resize(layers_.size());
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (layers_[layer].base == nullptr) continue;
    const HostHeads& heads = slices.layers[layer];
    std::size_t owners = 1;
    for (std::size_t head = 0; head < heads.heads(); ++head) {
      const Range owned = heads.owned_by(slices.rank, head);
      owned_[layer].push_back({owned.begin, owned.end});
      owners = std::max(owners, heads.owners_of(head));
    }
    kernels::PagedCache whole = layers_[layer];
    whole.layout = host_layouts[layer];
    whole.owned = owned_[layer];
    const Range own = heads.read_by(slices.rank);
    layers_[layer].base = whole.head(0, own.begin);
    layers_[layer].owned = whole.owned.subspan(own.begin, own.size());
    shared_[layer] = {host_.region.get(),
                      whole,
                      heads.are_shared() ? &slices.queries[layer] : nullptr,
                      owners,
                      exchange,
                      {scratch_.data(), threads, scratch},
                      heads.are_shared() ? lists_.get() : nullptr};
  }
}

}  // namespace tp
