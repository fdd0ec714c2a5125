#pragma once

#include <CLI/CLI.hpp>

namespace tp {

// What `tp-infer` does without arguments: the demo model tells a story. Returns the exit status.
int run_demo(const CLI::App& app);

}  // namespace tp
