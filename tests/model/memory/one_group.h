// A cache whose layers share one block table, although they may have windows.
#pragma once

#include "model/config/spec.h"
#include "model/memory/cache_groups.h"

#include <cstddef>
#include <variant>

namespace tp::test {

inline CacheGroups one_group(const ModelSpec& spec) {
  CacheGroups groups =
      CacheGroups::one(spec.blocks.size() + (spec.encoder != nullptr ? spec.encoder->blocks.size() : 0));
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    const auto* const attention = std::get_if<AttentionSpec>(&spec.blocks[layer].attention);
    if (attention != nullptr && attention->shared_kv_layer)
      groups.places[layer] = groups.places[*attention->shared_kv_layer];
  }
  return groups;
}

}  // namespace tp::test
