// From the command line's options to an engine.
#pragma once

#include "launch/options/engine_flags.h"
#include "tp/communicator.h"
#include "tp/engine.h"
#include "tp/model_kind.h"

#include <memory>
#include <optional>

namespace tp {

// Opens the engine on all ranks with a progress bar, without --model that of the demo model; rank 0 prints
// what is worth a notice and, with --verbose, who holds what. Models that do something else than `task` are
// an error. Collective.
std::unique_ptr<Engine> open_engine(Communicator& comm, const EngineFlags& flags,
                                    std::optional<Task> task = {});

}  // namespace tp
