// --lora and --adapter.
#pragma once

#include "tp/engine_options.h"

#include <functional>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// Adds --lora NAME=PATH[:SCALE], which may be given several times. Calls taken() when `adapters` is set.
void add_lora_option(
    CLI::App& command, std::vector<AdapterOptions>& adapters, const std::function<void()>& taken = [] {});
// Also adds --adapter NAME, the adapter of prompts that name none. By default, it is the only one.
void add_lora_options(CLI::App& command, EngineOptions& options);

}  // namespace tp
