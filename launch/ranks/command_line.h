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

  // Call it after parsing. Omits options that may differ between hosts: paths of models, --threads, --trace.
  static CommandLine of(const CLI::App& command);
};

// Collective. Throws AgreedError with the first rank that runs a different version of the program than rank
// 0, or has a different subcommand or options. The error names the difference.
void require_same_command_line(Communicator& comm, const CommandLine& own);

}  // namespace tp
