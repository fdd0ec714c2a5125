// --split: which part of the model each rank takes.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// Adds it to a subcommand. With `measured`, "measured" is a value, too, which sets it; both outlive the
// command.
void add_split_option(CLI::App& command, std::vector<double>& split, bool* measured = nullptr);

}  // namespace tp
