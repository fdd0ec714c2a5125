#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// Remembers the flags of the subcommand that `arguments` name, for with_flags; those of all subcommands if
// they name none.
void remember_flags(const CLI::App& app, const std::vector<std::string>& arguments);

// The library's errors name the fields of its options, in backquotes; users know them as flags. If the
// subcommand has the flag, "raise `cache_tokens`" becomes "raise --cache-tokens".
std::string with_flags(const std::string& text);

}  // namespace tp
