// Explains usage errors to users. CLI11's own messages are for programmers.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// Returns the arguments for CLI11: `help` and `version` work as words, and an empty value after an equals
// sign is a value. (For "--seed=", CLI11 would take the next argument instead.)
std::vector<std::string> arguments_of(int argc, const char* const* argv);

// Whether CLI11 mistakes another program's option, such as -hf, for -h.
bool is_mistaken_help(const std::vector<std::string>& arguments);

// Explains an `error` that `app` has thrown for the arguments: "tp-infer generate: there is no option
// --promt; did you mean --prompt? (see tp-infer generate --help)".
std::string explain_usage_error(const CLI::App& app, const CLI::ParseError& error,
                                const std::vector<std::string>& arguments);

}  // namespace tp
