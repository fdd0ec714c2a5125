// --lora and --adapter.
#pragma once

#include "tp/engine_options.h"

#include <functional>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// Adds --lora NAME=PATH[:SCALE], which may be repeated. Calls taken() after `adapters` is set.
void add_lora_option(
    CLI::App& command, std::vector<AdapterOptions>& adapters, const std::function<void()>& taken = [] {});
// Also adds --adapter NAME, the adapter of prompts that name none. The default is the adapter, if there is
// only one.
void add_lora_options(CLI::App& command, EngineOptions& options);

}  // namespace tp
