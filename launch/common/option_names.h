#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// Remembers the flags of the subcommand in `arguments` for with_flags(), or all subcommands' flags if there
// is none.
void remember_flags(const CLI::App& app, const std::vector<std::string>& arguments);

// Replaces fields by flags. The library's errors name fields of its options in backquotes, but users know the
// flags. If the subcommand has the flag, "raise `cache_tokens`" becomes "raise --cache-tokens".
std::string with_flags(const std::string& text);

}  // namespace tp
