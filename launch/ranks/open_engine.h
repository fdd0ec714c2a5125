// Opens an engine from the command line's options.
#pragma once

#include "launch/options/engine_flags.h"
#include "tp/communicator.h"
#include "tp/engine.h"
#include "tp/model_kind.h"

#include <memory>
#include <optional>

namespace tp {

// Opens the engine on all ranks with a progress bar. Without --model, opens the demo model. Rank 0 prints
// notices and, with --verbose, the rank map. A model with a different task than `task` is an error.
// Collective.
std::unique_ptr<Engine> open_engine(Communicator& comm, const EngineFlags& flags,
                                    std::optional<Task> task = {});

}  // namespace tp
