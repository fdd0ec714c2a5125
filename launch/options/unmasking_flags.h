// The options that say how a diffusion language model generates.
#pragma once

#include "tp/request.h"

#include <filesystem>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace tp {

// Adds --unmask-cache, which belongs to the engine.
void add_unmask_cache_option(CLI::App& command, UnmaskCache& cache);

struct UnmaskingFlags {
  std::optional<int> steps;
  std::optional<int> block_length;
  std::optional<std::string> unmask;
  std::optional<float> threshold;

  void add_to(CLI::App& command);
  bool any() const { return steps || block_length || unmask || threshold; }
  // Throws CLI::ValidationError for options that contradict each other, and for values out of range.
  void check() const;
  // Throws ConfigError if there are any and the model is not one that they are for.
  void require_fit(const std::filesystem::path& model) const;
  // Sets Request::unmasking if there are any.
  void apply(Request& request) const;
};

}  // namespace tp
