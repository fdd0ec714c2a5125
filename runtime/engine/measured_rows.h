#pragma once

#include "runtime/setup/engine_setup.h"
#include "runtime/speculation/row_costs.h"
#include "runtime/step/worker.h"
#include "tp/communicator.h"

#include <optional>

namespace tp {

// Measures steps with 1 to 32 rows of one sequence, like steps with draft tokens. Returns nothing if the
// times do not matter. Writes to the cache's first blocks and first state, so no sequence may own any yet.
// Resets the statistics. Collective; only rank 0's options and times count. Throws CommError.
std::optional<RowCosts> measured_row_costs(Communicator& comm, Worker& worker, const EnginePlan& plan);

}  // namespace tp
