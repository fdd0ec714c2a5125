// Which layers share the tables of their cache blocks.
#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

struct DecoderSpec;

// How far back the tokens of a layer see, themselves included; none: to the beginning.
using CacheWindow = std::optional<std::size_t>;
using CacheWindows = std::vector<CacheWindow>;

// Layers that see equally far need the same blocks for the same time: they are one group, with one table per
// sequence. A model whose layers are all alike has one group. Where they differ, groups are cut to nearly the
// same number of layers, so that a block is as large for all of them and one pool of blocks serves all, at
// any lengths of sequences. Recurrent layers need none (see state_cache.h).
struct CacheGroups {
  // Where a layer's keys and values are.
  struct Place {
    std::size_t group = 0;
    std::size_t slot = 0;  // in the group's blocks

    bool operator==(const Place&) const = default;
  };

  CacheWindows windows = {std::nullopt};       // [groups]
  std::size_t slots = 0;                       // layers that a block has room for
  std::vector<std::optional<Place>> places{};  // [num_hidden_layers]; none for recurrent layers

  // All layers in one group.
  static CacheGroups one(std::size_t layers, CacheWindow window = {});
  // All layers in one place, one after the other.
  static CacheGroups in_turn(std::size_t layers);
  // Those of an encoder follow those of the decoder that reads it.
  static CacheGroups of(const DecoderSpec& spec);
  // The same groups with some of the layers only: the tables stay, blocks hold less.
  CacheGroups with_layers(Range layers) const;
  // Layers that have a place.
  std::size_t cached_layers() const;
};

}  // namespace tp
