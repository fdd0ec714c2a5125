#pragma once

#include <CLI/CLI.hpp>

namespace tp {

// Runs `tp-infer` without arguments: the demo model tells a story. Returns the exit status.
int run_demo(const CLI::App& app);

}  // namespace tp
