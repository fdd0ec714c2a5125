// The options that every subcommand with a model has.
#pragma once

#include "tp/communicator.h"
#include "tp/engine.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace tp {

// What was given on the command line for the engine.
struct EngineFlags {
  EngineOptions options;
  bool verbose = false;
  double timeout = 0.0;  // seconds that a rank waits for another one; 0: for ever

  // Adds --model, --weights, --threads, --prefill-chunk, --cache-tokens, ... to a subcommand.
  void add_to(CLI::App& command);
};

// Opens the engine on all ranks with a progress bar, without --model that of the demo model; with --verbose
// rank 0 prints who holds what. Collective.
std::unique_ptr<Engine> open_engine(Communicator& comm, const EngineFlags& flags);

// Prints the rank map to stderr. Rank 0, while no step runs.
void print_rank_map(Engine& engine);

}  // namespace tp
