// The choice of positions, or of pools of positions, by the scores of index keys.
#pragma once

#include "model/config/attention_spec.h"
#include "model/kernels/index_keys.h"
#include "model/kernels/paged_cache.h"
#include "model/layers/linear/step_context.h"

namespace tp {

// Whether the step may have tokens that see more than the indexer chooses. The same on all ranks.
bool may_choose(const IndexerSpec& spec, const StepContext& step, const kernels::PagedCache& cache);

// Writes the choice of each token that sees more than spec.max_positions() to step.chosen, ascending, and its
// candidates, if the indexer chooses them and the token sees more, to step.candidates, ascending. The ranks
// of a host that keep one copy of the cache compute the scores of the positions that they own, exchange lists
// of their highest scores, and make the same choice. To choose candidates, each rank computes the scores of
// all positions, because ranks may own parts of a block. Returns whether this rank has waited for the other
// ranks of the host: then it sees what they have written to the cache. Throws CommError.
bool choose_by_index(const kernels::IndexQueries& queries, const IndexerSpec& spec, const StepContext& step,
                     const kernels::PagedCache& cache);

}  // namespace tp
