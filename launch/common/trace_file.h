// --trace FILE: what every rank did when, as Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev) show
// it.
#pragma once

#include "launch/common/result_output.h"
#include "tp/engine.h"

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace tp {

class TraceFile {
 public:
  // Opens the file, whose content stays until finish(); an empty path disables tracing. Throws Error if it
  // cannot be written.
  explicit TraceFile(const std::string& path);

  // Lets the ranks record from here on. Rank 0.
  void begin(Engine& engine) const;
  // Writes what they recorded. Rank 0; throws Error if the disk is full.
  void finish(Engine& engine);

 private:
  std::optional<ResultOutput> file_;
};

// Adds --trace to a subcommand.
void add_trace_option(CLI::App& command, std::string& path);

}  // namespace tp
