// --speculate: tokens guessed ahead.
#pragma once

#include "tp/speculation.h"

#include <string>

#include <CLI/CLI.hpp>

namespace tp {

// Adds it to a subcommand that generates. `options` outlives the command.
void add_speculate_option(CLI::App& command, SpeculationOptions& options);

// What has become of the drafts, for --verbose: "12 of 16 draft tokens accepted (...)".
std::string describe_drafts(const SpeculationCounts& counts);

}  // namespace tp
