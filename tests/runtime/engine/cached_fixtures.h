// Fixtures for tests of the cache.
#pragma once

#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/reference/fixture.h"

#include <vector>

namespace tp::test {

// Returns the fixtures whose models cache tokens. Models that recompute whole sequences don't.
inline std::vector<reference::Fixture> fixtures_with_cache(std::vector<reference::Fixture> fixtures) {
  std::erase_if(fixtures, [](const reference::Fixture& fixture) {
    return takes_whole_sequences(make_spec(load_config(fixture.folder)));
  });
  return fixtures;
}

}  // namespace tp::test
