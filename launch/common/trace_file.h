// --trace FILE: each rank's activities over time, for Chrome (chrome://tracing) and Perfetto
// (ui.perfetto.dev).
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

  // Starts recording on all ranks. Only for rank 0.
  void begin(Engine& engine) const;
  // Writes the recorded events. Only for rank 0. Throws Error if the disk is full.
  void finish(Engine& engine);

 private:
  std::optional<ResultOutput> file_;
};

// Adds --trace to a subcommand.
void add_trace_option(CLI::App& command, std::string& path);

}  // namespace tp
