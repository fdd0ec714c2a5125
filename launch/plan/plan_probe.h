// `plan --probe`.
#pragma once

#include "tp/memory_types.h"

#include <cstddef>
#include <optional>

#include <CLI/CLI.hpp>

namespace tp {

struct ProbeFlags {
  std::size_t threads = 0;  // threads of each rank; 0: the engine's default
  double timeout = 0.0;
};

// Adds --threads and --timeout, which need `probe`.
void add_probe_options(CLI::App& command, ProbeFlags& flags, CLI::Option& probe);

// Measures the cluster on all ranks with weights of a type (none: bf16), and prints the flags that describe
// it. Returns the exit status.
int run_probe(const CLI::App& command, const ProbeFlags& flags, std::optional<WeightType> weights,
              const std::string& output);

}  // namespace tp
