#pragma once

#include <CLI/CLI.hpp>

namespace tp {

// `tp-infer generate`: continues prompts. The exit status is left in `status`.
void add_generate_command(CLI::App& app, int& status);

// What `tp-infer` does without arguments: the demo model tells a story. Returns the exit status.
int run_demo(const CLI::App& app);

}  // namespace tp
