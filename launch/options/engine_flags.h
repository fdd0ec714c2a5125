// The options that every subcommand with a model has.
#pragma once

#include "tp/engine.h"

#include <cstdint>

#include <CLI/CLI.hpp>

namespace tp {

// What --weights accepts: the types to which weights can be converted, or all in which they can be generated.
enum class WeightNames : std::uint8_t { convertible, all };

// What was given on the command line for the engine.
struct EngineFlags {
  EngineOptions options;
  bool verbose = false;
  double timeout = 0.0;  // seconds that a rank waits for another one; 0: for ever

  // Adds --model, --weights, --threads, --prefill-chunk, --cache-tokens, ... to a subcommand.
  void add_to(CLI::App& command, WeightNames names = WeightNames::convertible);
};

}  // namespace tp
