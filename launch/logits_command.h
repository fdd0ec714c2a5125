#pragma once

#include <CLI/CLI.hpp>

namespace tp {

// `tp-infer logits`: the logits of every position of a prompt, as an .npy file.
void add_logits_command(CLI::App& app, int& status);

}  // namespace tp
