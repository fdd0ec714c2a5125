// A rank's command line. Ranks compare their command lines, because all must be started alike.
#pragma once

#include "launch/ranks/distinct_files.h"
#include "tp/communicator.h"

#include <map>
#include <string>

#include <CLI/CLI.hpp>

namespace tp {

struct CommandLine {
  std::string subcommand;
  std::map<std::string, std::string> options;  // options on the command line, by their names there
  UsedFiles files{};

  // To be called after parsing. Options that may differ between hosts are left out: paths of models,
  // --threads,
  // --trace.
  static CommandLine of(const CLI::App& command);
};

// Collective. Throws AgreedError, naming the first rank that runs another version of the program than rank 0,
// or was started with another subcommand or other options, and in what they differ.
void require_same_command_line(Communicator& comm, const CommandLine& own);

}  // namespace tp
