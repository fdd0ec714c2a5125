// --speculate: draft tokens.
#pragma once

#include "tp/speculation.h"

#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

namespace tp {

// Adds the option to a subcommand that generates text. `options` must outlive the command.
void add_speculate_option(CLI::App& command, SpeculationOptions& options);

// Replaces a draft model's name by its path. Throws CheckpointError if the first rank lacks the model. Other
// ranks may do without it. `model`: the path of the target model.
void find_draft_model(SpeculationOptions& options, const std::filesystem::path& model, bool is_first_rank);

// Returns the model in a value of the option, or an empty text.
std::string draft_model_of(const std::string& value);

// Returns the counts of drafts for --verbose: "12 of 16 draft tokens accepted (...)".
std::string describe_drafts(const SpeculationCounts& counts);

}  // namespace tp
