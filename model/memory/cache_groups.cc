#include "model/memory/cache_groups.h"

#include "model/config/spec.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <variant>

namespace tp {
namespace {

CacheWindow window_of(const AttentionPattern& pattern) {
  return pattern.causal ? pattern.reach() : std::nullopt;
}

CacheWindow window_of(const BlockSpec& block) {
  if (const auto* const compressed = std::get_if<CompressedAttentionSpec>(&block.attention))
    return compressed->pool == 0 ? CacheWindow(compressed->window) : std::nullopt;
  const auto* attention = std::get_if<AttentionSpec>(&block.attention);
  return attention != nullptr ? window_of(attention->pattern) : std::nullopt;
}

// About the elements of a token's keys and values on one rank.
std::size_t cached_elements(const AttentionPartSpec& part, std::size_t ranks) {
  if (const auto* const latent = std::get_if<LatentAttentionSpec>(&part))
    return latent->kv_lora_rank + latent->qk_rope_head_dim +
           (latent->indexer && !latent->indexer->is_shared ? latent->indexer->head_dim / latent->indexer->pool
                                                           : 0);
  if (const auto* const compressed = std::get_if<CompressedAttentionSpec>(&part)) {
    const std::size_t pool = std::max<std::size_t>(1, compressed->pool);
    return (compressed->head_dim + (compressed->indexer ? compressed->indexer->head_dim : 0) + pool - 1) /
           pool;
  }
  const auto* const attention = std::get_if<AttentionSpec>(&part);
  if (attention == nullptr) return 0;
  const std::size_t of_head =
      2 * attention->head_dim + (attention->block_indexer ? attention->block_indexer->head_dim : 0) +
      (attention->pooled_indexer ? attention->pooled_indexer->head_dim / attention->pooled_indexer->pool : 0);
  return of_head * ((attention->num_key_value_heads + ranks - 1) / ranks);
}

// Layers with the same window.
struct Alike {
  CacheWindow window;
  std::vector<std::size_t> layers;
  std::vector<std::size_t> sizes;  // the layers' sizes, in elements per token

  std::size_t total() const { return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}); }
  // The first layer of each group, as an index into `layers`, if groups have at most `capacity` elements.
  std::vector<std::size_t> first_of_groups(std::size_t capacity) const {
    std::vector<std::size_t> first;
    std::size_t filled = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (i == 0 || filled + sizes[i] > capacity) {
        first.push_back(i);
        filled = 0;
      }
      filled += sizes[i];
    }
    return first;
  }
};

// The layers that have blocks of their own, by window.
std::vector<Alike> alike_layers(const ModelSpec& spec, std::size_t ranks) {
  std::vector<Alike> kinds;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    if (!keeps_keys(spec.blocks[layer]) || shared_cache_layer(spec.blocks[layer])) continue;
    const CacheWindow window = window_of(spec.blocks[layer]);
    auto kind = std::ranges::find(kinds, window, &Alike::window);
    if (kind == kinds.end()) kind = kinds.insert(kind, {window, {}, {}});
    kind->layers.push_back(layer);
    kind->sizes.push_back(cached_elements(spec.blocks[layer].attention, ranks));
  }
  return kinds;
}

// Adds a group of these layers.
void append_group(std::span<const std::size_t> layers, CacheWindow window, CacheGroups& groups) {
  for (std::size_t slot = 0; slot < layers.size(); ++slot)
    groups.places[layers[slot]] = CacheGroups::Place{groups.windows.size(), slot};
  groups.windows.push_back(window);
  groups.slots = std::max(groups.slots, layers.size());
}

// The part of the blocks' memory that no layer uses, in thousandths. A twentieth is as good as nothing.
std::size_t unused_part(std::span<const Alike> kinds, std::size_t capacity) {
  std::size_t used = 0;
  std::size_t groups = 0;
  for (const Alike& kind : kinds) {
    used += kind.total();
    groups += kind.first_of_groups(capacity).size();
  }
  const std::size_t all = groups * capacity;
  return std::max<std::size_t>(50, 1000 * (all - used) / all);
}

// The number of elements per token of a block that leaves the least room unused: above all in the layers that
// see furthest, which need most of the blocks of long sequences; then in all layers. If sizes are equally
// good, the largest makes the fewest tables.
std::size_t capacity_for(const std::vector<Alike>& kinds) {
  const Alike& widest =
      *std::ranges::max_element(kinds, {}, [](const Alike& kind) { return kind.window.value_or(SIZE_MAX); });
  std::size_t min = 0;  // the largest layer
  for (const Alike& kind : kinds) min = std::max(min, std::ranges::max(kind.sizes));
  const std::size_t max = std::max(min, std::ranges::min(kinds, {}, &Alike::total).total());
  std::set<std::size_t> candidates = {min};
  for (const Alike& kind : kinds) {
    std::size_t sum = 0;
    for (const std::size_t size : kind.sizes) {
      if ((sum += size) >= min && sum <= max) candidates.insert(sum);
    }
  }
  return *std::ranges::min_element(candidates, {}, [&](std::size_t capacity) {
    return std::tuple(unused_part({&widest, 1}, capacity), unused_part(kinds, capacity), max - capacity);
  });
}

CacheGroups groups_of_stack(const ModelSpec& spec, std::size_t ranks) {
  const std::size_t layers = spec.blocks.size();
  if (takes_whole_sequences(spec) && !spec.keeps_sequences) return CacheGroups::in_turn(layers);
  const std::vector<Alike> kinds = alike_layers(spec, ranks);
  if (kinds.empty()) return {.places = std::vector<std::optional<CacheGroups::Place>>(layers)};
  const std::size_t capacity = kinds.size() == 1 ? kinds.front().total() : capacity_for(kinds);
  CacheGroups groups{.windows = {}, .slots = 0, .places = {}};
  groups.places.resize(layers);
  for (const Alike& kind : kinds) {
    std::vector<std::size_t> first = kind.first_of_groups(capacity);
    first.push_back(kind.layers.size());
    for (std::size_t group = 0; group + 1 < first.size(); ++group)
      append_group(std::span(kind.layers).subspan(first[group], first[group + 1] - first[group]), kind.window,
                   groups);
  }
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (const auto shared = shared_cache_layer(spec.blocks[layer]))
      groups.places[layer] = groups.places[*shared];
  }
  return groups;
}

}  // namespace

CacheGroups CacheGroups::one(std::size_t layers, CacheWindow window) {
  CacheGroups groups{.windows = {window}, .slots = layers, .places = {}};
  for (std::size_t layer = 0; layer < layers; ++layer) groups.places.push_back(Place{0, layer});
  return groups;
}

CacheGroups CacheGroups::with_layers(Range layers) const {
  CacheGroups some{.windows = windows, .slots = 0, .places = {}, .has_states = has_states};
  std::vector<std::size_t> filled(windows.size());  // slots of each group
  for (std::size_t layer = layers.begin; layer < layers.end; ++layer) {
    std::optional<Place>& place = some.places.emplace_back();
    if (!places[layer]) continue;
    std::size_t first = layers.begin;  // the first layer with the same place
    while (places[first] != places[layer]) ++first;
    const std::size_t group = places[layer]->group;
    place = first < layer ? some.places[first - layers.begin] : Place{group, filled[group]++};
  }
  some.slots = std::ranges::max(filled);
  return some;
}

// For keys and values that no later step needs: the layers use the memory of one layer, one after the other.
CacheGroups CacheGroups::in_turn(std::size_t layers) {
  return {.slots = 1, .places = std::vector<std::optional<Place>>(layers, Place{})};
}

CacheGroups CacheGroups::of(const ModelSpec& spec, std::size_t ranks) {
  CacheGroups groups = groups_of_stack(spec, ranks);
  groups.has_states = std::ranges::any_of(spec.blocks, keeps_state);
  // An encoder's layers use the blocks of the decoder's first layer, one after the other. When the encoder is
  // done, that layer overwrites them with the keys and values that it keeps of the input.
  if (spec.encoder) groups.places.resize(spec.blocks.size() + spec.encoder->blocks.size(), Place{});
  return groups;
}

}  // namespace tp
