// Loads weights through a cache of packed weights, in the same way on all ranks.
#pragma once

#include "model/weights/packed_cache.h"
#include "tp/communicator.h"

#include <functional>
#include <string>

namespace tp {

struct PackedWeights {
  bool were_read = false;  // read from the cache, not from the checkpoint
  // Says that a cache was found but not used, or could not be written; usually empty.
  std::string notice;
};

// Calls `load`, which reads weights from the cache or writes the cache. All ranks read if every rank has a
// usable cache. Otherwise all ranks write, because loading from a checkpoint may be collective. Calls `load`
// again if a cache turns out to be damaged. Collective. Throws like fail_together.
PackedWeights load_through_cache(Communicator& comm, PackedCache& cache, const std::function<void()>& load);

}  // namespace tp
