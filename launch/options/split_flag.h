// --split: the ranks' shares of the model.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// Adds the option to a subcommand. With `measured`, the option also accepts "measured", which sets it. Both
// variables must outlive the command.
void add_split_option(CLI::App& command, std::vector<double>& split, bool* measured = nullptr);

}  // namespace tp
