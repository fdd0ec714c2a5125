// --attention: exact, or approximated by random features.
#pragma once

#include <cstddef>

#include <CLI/CLI.hpp>

namespace tp {

// `favor_features` becomes the number of features, or 0 for exact attention.
void add_attention_option(CLI::App& command, std::size_t& favor_features);

}  // namespace tp
