// A cache whose layers share one block table, although they may have windows.
#pragma once

#include "model/config/spec.h"
#include "model/memory/cache_groups.h"

#include <cstddef>

namespace tp::test {

inline CacheGroups one_group(const ModelSpec& spec) {
  CacheGroups groups =
      CacheGroups::one(spec.blocks.size() + (spec.encoder != nullptr ? spec.encoder->blocks.size() : 0));
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    if (const auto shared = shared_cache_layer(spec.blocks[layer]))
      groups.places[layer] = groups.places[*shared];
  }
  return groups;
}

}  // namespace tp::test
