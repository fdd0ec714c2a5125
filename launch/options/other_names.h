// Names of options and subcommands in other programs, which users try here.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// "here it is --temperature" for the option --temp of `command`, "it is --context of plan" for one of another
// subcommand, "leave it out: ..." for one that is not needed. Nothing for a name that no other program has.
// `name` begins with its dashes.
std::string answer_to_other_option(const CLI::App& app, const CLI::App& command, const std::string& name);

// "download" for pull, or nothing.
std::string subcommand_of_other_name(const std::string& word);

// The names of all subcommands, or of those with an option.
std::vector<std::string> subcommand_names(const CLI::App& app, const std::string& with_option = {});

}  // namespace tp
