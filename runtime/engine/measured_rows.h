#pragma once

#include "runtime/setup/engine_setup.h"
#include "runtime/speculation/row_costs.h"
#include "runtime/step/worker.h"
#include "tp/communicator.h"
#include "tp/speculation.h"

#include <optional>

namespace tp {

// How long steps of 1 to 32 rows of one sequence take, as a sequence with draft tokens has them; none where
// that does not matter. Writes to the cache's first blocks and to its first state, so that no sequence may
// have any, and resets the statistics. Collective; only rank 0's options and times count. Throws CommError.
std::optional<RowCosts> measured_row_costs(Communicator& comm, Worker& worker, const EnginePlan& plan,
                                           const SpeculationOptions& options);

}  // namespace tp
