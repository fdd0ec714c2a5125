// Explains usage errors to users. CLI11's own messages are for programmers.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// The arguments as CLI11 should see them: `help` and `version` work as words, and an empty value behind an
// equals sign is a value ("--seed=" would take the next argument instead).
std::vector<std::string> arguments_of(int argc, const char* const* argv);

// Whether what CLI11 takes for -h is another program's option, such as -hf.
bool is_mistaken_help(const std::vector<std::string>& arguments);

// "tp-infer generate: there is no option --promt; did you mean --prompt? (see tp-infer generate --help)",
// once `app` has thrown `error` at the arguments.
std::string explain_usage_error(const CLI::App& app, const CLI::ParseError& error,
                                const std::vector<std::string>& arguments);

}  // namespace tp
