// --trace FILE: what every rank did when, as Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev) show
// it.
#pragma once

#include "tp/engine.h"

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace tp {

class TraceFile {
 public:
  // Creates the file; an empty path is no wish for one. Throws ConfigError if it cannot be written.
  explicit TraceFile(std::string path);

  // Lets the ranks record from here on. Rank 0.
  void begin(Engine& engine) const;
  // Writes what they recorded. Rank 0; throws Error if the disk is full.
  void finish(Engine& engine) const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// Adds --trace to a subcommand.
void add_trace_option(CLI::App& command, std::string& path);

}  // namespace tp
