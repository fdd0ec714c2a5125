// Agreements that all ranks make before they load a model.
#pragma once

#include "parallel/exchange/placement.h"
#include "runtime/setup/engine_setup.h"
#include "tp/communicator.h"
#include "tp/engine.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp {

// Sets the number of OpenMP threads to the options' number, or else to this rank's share of its host's cores.
// Returns the number.
std::size_t start_threads(const Communicator& comm, const EngineOptions& options);

// The host of each rank, [stages * ranks per stage]; see EnginePlan::host_of. Throws ConfigError if the ranks
// cannot be divided evenly.
std::vector<std::uint64_t> hosts_of_stages(const Placement& world, std::size_t stages);

// Checks that all ranks run the same build, whose text is `own`. Collective; throws AgreedError.
void require_same_build(Communicator& comm, const std::string& own);

// Broadcasts rank 0's plan and checks that all ranks can execute it together. Collective; throws AgreedError.
EnginePlan agree_on_plan(Communicator& comm, const EngineOptions& options);

// Checks that all ranks compute equal results with this plan, where equality matters. With `same_bits`, also
// selects an instruction set that all ranks support. Collective; throws AgreedError.
void agree_on_arithmetic(Communicator& comm, const EnginePlan& plan);

// Checks that all ranks have the same adapters, and that the model has all layers that they change. Does
// nothing without adapters. Collective; throws AgreedError.
void agree_on_adapters(Communicator& comm, const EnginePlan& plan, const WeightSource& weights);

}  // namespace tp
