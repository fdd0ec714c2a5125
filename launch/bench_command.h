#pragma once

#include <CLI/CLI.hpp>

namespace tp {

// `tp-infer bench`: tokens per second of prefill and decode.
void add_bench_command(CLI::App& app, int& status);

}  // namespace tp
