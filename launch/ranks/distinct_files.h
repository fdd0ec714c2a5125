// Keeps commands from writing over their own inputs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// A file that a command uses, with the option that names it, as errors call it.
struct UsedFile {
  std::string option;
  std::string path;
};

// The files that a command reads and writes according to its options. "-" is a standard stream.
//
// An option that is added later is protected without further work: every option whose type is FILE names a
// file to read, unless kWritten in the .cc file lists it.
struct UsedFiles {
  std::vector<UsedFile> written{};
  std::vector<UsedFile> read{};
  std::vector<std::string> models{};   // as options name them; empty: the demo model
  std::vector<std::string> folders{};  // whose files are read, such as that of --packed-cache

  // To be called after parsing.
  static UsedFiles of(const CLI::App& command);
  // With another file to write.
  UsedFiles with(const std::string& option, const std::string& path) const;
};

// Throws RequestError if writing one of the files would destroy a file that the command reads, or another
// file that it writes, be it through a link. run_on_ranks and run_on_first_rank call it before a command
// does anything.
void require_distinct_files(const UsedFiles& files);

}  // namespace tp
