// Loading through a cache of packed weights, alike on all ranks.
#pragma once

#include "model/weights/packed_cache.h"
#include "tp/communicator.h"

#include <functional>
#include <string>

namespace tp {

struct PackedWeights {
  bool were_read = false;  // from the cache, not from the checkpoint
  // Says that a cache was found but not used, or could not be written; usually empty.
  std::string notice;
};

// Calls `load`, which takes weights from the cache or writes it: all ranks read it if every rank has a sound
// one, else all write it anew, because loading from a checkpoint may be collective. Calls `load` again if a
// cache turns out to be damaged. Collective. Throws what fail_together throws.
PackedWeights load_through_cache(Communicator& comm, PackedCache& cache, const std::function<void()>& load);

}  // namespace tp
