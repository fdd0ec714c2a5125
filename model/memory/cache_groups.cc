#include "model/memory/cache_groups.h"

#include "model/config/spec.h"

#include <algorithm>
#include <variant>

namespace tp {
namespace {

CacheWindow window_of(const AttentionPattern& pattern) {
  return pattern.causal ? pattern.reach() : std::nullopt;
}

CacheWindow window_of(const BlockSpec& block) {
  const auto* attention = std::get_if<AttentionSpec>(&block.attention);
  return attention != nullptr ? window_of(attention->pattern) : std::nullopt;
}

// Whether a block has the same number of bytes in both layers, on every rank.
bool cached_alike(const BlockSpec& one, const BlockSpec& other) {
  const auto* a = std::get_if<AttentionSpec>(&one.attention);
  const auto* b = std::get_if<AttentionSpec>(&other.attention);
  return a != nullptr && b != nullptr && a->num_attention_heads == b->num_attention_heads &&
         a->num_key_value_heads == b->num_key_value_heads && a->head_dim == b->head_dim;
}

// Layers with the same window.
struct Alike {
  CacheWindow window;
  std::vector<std::size_t> layers;

  std::size_t groups(std::size_t slots) const { return (layers.size() + slots - 1) / slots; }
};

// The layers that have blocks, by window.
std::vector<Alike> alike_layers(const DecoderSpec& spec) {
  std::vector<Alike> kinds;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    if (is_recurrent(spec.blocks[layer].attention)) continue;
    const CacheWindow window = window_of(spec.blocks[layer]);
    auto kind = std::ranges::find(kinds, window, &Alike::window);
    if (kind == kinds.end()) kind = kinds.insert(kind, {window, {}});
    kind->layers.push_back(layer);
  }
  return kinds;
}

// All layers of `kinds` in one group.
CacheGroups one_group(std::size_t layers, const std::vector<Alike>& kinds, CacheWindow window) {
  CacheGroups groups{.windows = {window}, .slots = 0, .places = {}};
  groups.places.resize(layers);
  std::vector<std::size_t> cached;
  for (const Alike& kind : kinds) cached.insert(cached.end(), kind.layers.begin(), kind.layers.end());
  std::ranges::sort(cached);
  for (const std::size_t layer : cached) groups.places[layer] = CacheGroups::Place{0, groups.slots++};
  return groups;
}

// The most slots that leave at most a twentieth of all slots without a layer. More slots mean fewer groups,
// thus fewer tables.
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

CacheGroups groups_of_stack(const DecoderSpec& spec) {
  const std::size_t layers = spec.blocks.size();
  if (takes_whole_sequences(spec) && !spec.keeps_sequences) return CacheGroups::in_turn(layers);
  const std::vector<Alike> kinds = alike_layers(spec);
  if (kinds.empty()) return one_group(layers, kinds, {});
  if (kinds.size() == 1) return one_group(layers, kinds, kinds.front().window);
  const BlockSpec& first = spec.blocks[kinds.front().layers.front()];
  const bool alike = std::ranges::all_of(spec.blocks, [&](const BlockSpec& block) {
    return is_recurrent(block.attention) || cached_alike(block, first);
  });
  if (!alike) return one_group(layers, kinds, {});  // blocks of different sizes are not interchangeable
  std::size_t cached = 0;
  for (const Alike& kind : kinds) cached += kind.layers.size();
  CacheGroups groups{.windows = {}, .slots = slots_for(kinds, cached), .places = {}};
  groups.places.resize(layers);
  for (const Alike& kind : kinds) {
    for (std::size_t i = 0; i < kind.layers.size(); ++i)
      groups.places[kind.layers[i]] =
          CacheGroups::Place{groups.windows.size() + i / groups.slots, i % groups.slots};
    groups.windows.resize(groups.windows.size() + kind.groups(groups.slots), kind.window);
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
  CacheGroups some{.windows = windows, .slots = 0, .places = {}};
  std::vector<std::size_t> filled(windows.size());  // slots of each group
  for (std::size_t layer = layers.begin; layer < layers.end; ++layer) {
    std::optional<Place>& place = some.places.emplace_back();
    if (places[layer]) place = Place{places[layer]->group, filled[places[layer]->group]++};
  }
  some.slots = std::ranges::max(filled);
  return some;
}

std::size_t CacheGroups::cached_layers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(places, [](const auto& place) { return place.has_value(); }));
}

// For keys and values that no later step needs: the layers use the memory of one layer, one after the other.
CacheGroups CacheGroups::in_turn(std::size_t layers) {
  return {.slots = 1, .places = std::vector<std::optional<Place>>(layers, Place{})};
}

CacheGroups CacheGroups::of(const DecoderSpec& spec) {
  CacheGroups groups = groups_of_stack(spec);
  // An encoder's layers use the blocks of the decoder's first layer, one after the other. When the encoder is
  // done, that layer overwrites them with the keys and values that it keeps of the input.
  if (spec.encoder) groups.places.resize(spec.blocks.size() + spec.encoder->blocks.size(), Place{});
  return groups;
}

}  // namespace tp
