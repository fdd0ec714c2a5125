// Verifies the positions that indexers choose.
#pragma once

#include "bench/filled_cache.h"
#include "model/layers/model.h"
#include "tp/communicator.h"

namespace tp::bench {

// Compares the choices of the first layer's indexer with the highest scores, which are computed in double
// precision. The tokens are random, and come after options.context positions in a cache that the ranks
// share. Collective. Throws CommError if a choice is wrong.
void verify_choices(Communicator& comm, const ModelSpec& spec, const Model& model,
                    const FilledOptions& options);

}  // namespace tp::bench
