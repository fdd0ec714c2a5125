// Groups of layers that share block tables of the KV cache.
#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

struct ModelSpec;

// Number of most recent tokens that a layer's token sees, itself included; none: all.
using CacheWindow = std::optional<std::size_t>;
using CacheWindows = std::vector<CacheWindow>;

// Layers with the same window need the same blocks for the same time. They form a group, with one block table
// per sequence. If all layers see equally far, there is one group. Otherwise the groups get layers of nearly
// the same size in total, so that one pool of blocks serves all groups at any sequence lengths. All blocks
// have room for the largest group. Recurrent layers need no blocks (see state_cache.h).
struct CacheGroups {
  // The place of a layer's keys and values.
  struct Place {
    std::size_t group = 0;
    std::size_t slot = 0;  // slot of the group's blocks

    bool operator==(const Place&) const = default;
  };

  CacheWindows windows = {std::nullopt};  // [groups]
  std::size_t slots = 0;                  // most layers of a group
  // [num_hidden_layers]; none for layers without keys and values. Layers that share keys and values have the
  // same place.
  std::vector<std::optional<Place>> places{};
  bool has_states = false;  // whether any layer has a state, instead of a place or in addition to it

  // All layers in one group.
  static CacheGroups one(std::size_t layers, CacheWindow window = {});
  // All layers share one place, one layer at a time.
  static CacheGroups in_turn(std::size_t layers);
  // For `ranks` ranks per stage, because layers with few KV heads take a larger part of a rank's cache the
  // more ranks there are. If the decoder reads an encoder, the encoder's layers follow the decoder's layers.
  static CacheGroups of(const ModelSpec& spec, std::size_t ranks);
  // These groups with only some of the layers: the block tables are the same, blocks have fewer slots.
  CacheGroups with_layers(Range layers) const;
};

}  // namespace tp
