#pragma once

#include <CLI/CLI.hpp>

namespace tp {

// `tp-infer perplexity`: how well a model foretells a text. Sets `status` to the exit status.
void add_perplexity_command(CLI::App& app, int& status);

}  // namespace tp
