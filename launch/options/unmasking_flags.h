// Options for generating with a diffusion language model.
#pragma once

#include "tp/request.h"

#include <filesystem>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace tp {

// Adds --unmask-cache, which is an option of the engine.
void add_unmask_cache_option(CLI::App& command, UnmaskCache& cache);

struct UnmaskingFlags {
  std::optional<int> steps;
  std::optional<int> block_length;
  std::optional<std::string> unmask;
  std::optional<float> threshold;

  void add_to(CLI::App& command);
  bool any() const { return steps || block_length || unmask || threshold; }
  // Throws CLI::ValidationError for contradictory options, and for values out of range.
  void check() const;
  // Throws ConfigError if any of these options is set and the model does not support them.
  void require_fit(const std::filesystem::path& model) const;
  // Sets Request::unmasking if any of these options is set.
  void apply(Request& request) const;
};

}  // namespace tp
