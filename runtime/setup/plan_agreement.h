// What all ranks settle before they load a model.
#pragma once

#include "runtime/setup/engine_setup.h"
#include "tp/communicator.h"
#include "tp/engine.h"

#include <cstddef>

namespace tp {

// Lets OpenMP use the threads that the options name, or else this rank's share of its host's cores; returns
// how many these are.
std::size_t start_threads(const Communicator& comm, const EngineOptions& options);

// Broadcasts rank 0's plan and checks that all ranks can execute it together. Collective; throws AgreedError.
EnginePlan agree_on_plan(Communicator& comm, const EngineOptions& options);

// Checks that all ranks compute the same with this plan, as far as they must. With `same_bits` they take an
// instruction set that all of them have. Collective; throws AgreedError.
void agree_on_arithmetic(Communicator& comm, const EnginePlan& plan);

}  // namespace tp
