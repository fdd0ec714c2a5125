// Names of options and subcommands in other programs, which users may try here.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// Returns advice about another program's option: "here it is --temperature" for --temp of `command`, "it is
// --context of plan" for another subcommand's option, "leave it out: ..." for an unnecessary one. Returns
// nothing for an unknown name. `name` begins with its dashes.
std::string answer_to_other_option(const CLI::App& app, const CLI::App& command, const std::string& name);

// Returns "download" for pull, or nothing.
std::string subcommand_of_other_name(const std::string& word);

// Returns the names of all subcommands, or of the subcommands with an option.
std::vector<std::string> subcommand_names(const CLI::App& app, const std::string& with_option = {});

}  // namespace tp
