#pragma once

#include <CLI/CLI.hpp>

namespace tp {

// `tp-infer inspect`: what a model is and what each rank would own. Loads no weights and starts no MPI.
void add_inspect_command(CLI::App& app);

}  // namespace tp
