// --speculate: tokens guessed ahead.
#pragma once

#include "tp/speculation.h"

#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

namespace tp {

// Adds it to a subcommand that generates. `options` outlives the command.
void add_speculate_option(CLI::App& command, SpeculationOptions& options);

// Replaces the name of a draft model by its path. Throws CheckpointError if the first rank has none; other
// ranks may do without. `model`: the path of the model that it guesses for.
void find_draft_model(SpeculationOptions& options, const std::filesystem::path& model, bool is_first_rank);

// Returns the model in a value of the option, or an empty text.
std::string draft_model_of(const std::string& value);

// Returns the counts of drafts for --verbose: "12 of 16 draft tokens accepted (...)".
std::string describe_drafts(const SpeculationCounts& counts);

}  // namespace tp
