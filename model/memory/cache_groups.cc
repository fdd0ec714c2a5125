#include "model/memory/cache_groups.h"

#include "model/config/spec.h"

#include <algorithm>
#include <variant>

namespace tp {
namespace {

CacheWindow window_of(const AttentionPattern& pattern) {
  return pattern.causal && pattern.global_tokens == 0 ? pattern.reach() : std::nullopt;
}

CacheWindow window_of(const BlockSpec& block) {
  const auto* attention = std::get_if<AttentionSpec>(&block.attention);
  return attention != nullptr ? window_of(attention->pattern) : std::nullopt;
}

// Whether a block takes the same bytes in both layers, on every rank.
bool cached_alike(const BlockSpec& one, const BlockSpec& other) {
  const auto* a = std::get_if<AttentionSpec>(&one.attention);
  const auto* b = std::get_if<AttentionSpec>(&other.attention);
  return a != nullptr && b != nullptr && a->num_attention_heads == b->num_attention_heads &&
         a->num_key_value_heads == b->num_key_value_heads && a->head_dim == b->head_dim;
}

// Layers that see equally far.
struct Alike {
  CacheWindow window;
  std::vector<std::size_t> layers;

  std::size_t groups(std::size_t slots) const { return (layers.size() + slots - 1) / slots; }
};

std::vector<Alike> alike_layers(const DecoderSpec& spec) {
  std::vector<Alike> kinds;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    const CacheWindow window = window_of(spec.blocks[layer]);
    auto kind = std::ranges::find(kinds, window, &Alike::window);
    if (kind == kinds.end()) kind = kinds.insert(kind, {window, {}});
    kind->layers.push_back(layer);
  }
  return kinds;
}

// As many as leave at most a twentieth of the slots without a layer: a group more is a table more.
std::size_t slots_for(const std::vector<Alike>& kinds, std::size_t layers) {
  std::size_t slots = layers;
  for (const Alike& kind : kinds) slots = std::min(slots, kind.layers.size());
  const auto fills = [&](std::size_t count) {
    std::size_t groups = 0;
    for (const Alike& kind : kinds) groups += kind.groups(count);
    return 20 * (groups * count - layers) <= groups * count;
  };
  while (!fills(slots)) --slots;
  return slots;
}

}  // namespace

CacheGroups CacheGroups::one(std::size_t layers, CacheWindow window) {
  CacheGroups groups{.windows = {window}, .slots = layers};
  for (std::size_t layer = 0; layer < layers; ++layer) groups.places.push_back({0, layer});
  return groups;
}

CacheGroups CacheGroups::of(const DecoderSpec& spec) {
  const std::size_t layers = spec.blocks.size();
  const std::vector<Alike> kinds = alike_layers(spec);
  if (kinds.size() == 1) return one(layers, kinds.front().window);
  const bool alike = std::ranges::all_of(
      spec.blocks, [&](const BlockSpec& block) { return cached_alike(block, spec.blocks.front()); });
  if (!alike) return one(layers);  // their blocks cannot take each other's place
  CacheGroups groups{.windows = {}, .slots = slots_for(kinds, layers)};
  groups.places.resize(layers);
  for (const Alike& kind : kinds) {
    for (std::size_t i = 0; i < kind.layers.size(); ++i)
      groups.places[kind.layers[i]] = {groups.windows.size() + i / groups.slots, i % groups.slots};
    groups.windows.resize(groups.windows.size() + kind.groups(groups.slots), kind.window);
  }
  return groups;
}

}  // namespace tp
