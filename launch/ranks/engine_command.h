// Runs a command that computes something with a model and ends.
#pragma once

#include "launch/options/engine_flags.h"
#include "tp/engine.h"
#include "tp/model_kind.h"

#include <functional>

#include <CLI/CLI.hpp>

namespace tp {

// Rank 0 calls `prepare` before the model is loaded, to check files and read inputs. Then it calls `compute`
// with an engine of all ranks for this task. Returns the exit status. An error is one message and exit status
// 1.
int run_engine_command(const CLI::App& command, const EngineFlags& flags, Task task,
                       const std::function<void()>& prepare, const std::function<void(Engine&)>& compute);

}  // namespace tp
