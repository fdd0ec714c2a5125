// The course of a command that computes something with a model and ends.
#pragma once

#include "launch/options/engine_flags.h"
#include "tp/engine.h"
#include "tp/model_kind.h"

#include <functional>

#include <CLI/CLI.hpp>

namespace tp {

// On rank 0, `prepare` runs before the model is loaded, to check the command's files and to read its inputs,
// and `compute` with an engine of all ranks, for that task. Returns the exit status; an error is one message
// and exit status 1.
int run_engine_command(const CLI::App& command, const EngineFlags& flags, Task task,
                       const std::function<void()>& prepare, const std::function<void(Engine&)>& compute);

}  // namespace tp
