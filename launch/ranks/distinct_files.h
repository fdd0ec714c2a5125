// Prevents commands from overwriting their own inputs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace tp {

// A file of a command, and the option that names it in errors.
struct UsedFile {
  std::string option;
  std::string path;
};

// The files that a command's options name for reading and writing. "-" is a standard stream.
//
// New options are protected automatically: every option of the type FILE names a file to read, except the
// options in kWritten in the .cc file.
struct UsedFiles {
  std::vector<UsedFile> written{};
  std::vector<UsedFile> read{};
  std::vector<std::string> models{};   // values of the options; empty: the demo model
  std::vector<std::string> folders{};  // folders whose files are read, such as that of --packed-cache

  // Call it after parsing.
  static UsedFiles of(const CLI::App& command);
  // Returns these files and another file to write.
  UsedFiles with(const std::string& option, const std::string& path) const;
};

// Throws RequestError if writing a file would destroy a file that the command reads, or another file that it
// writes, even through a link. run_on_ranks and run_on_first_rank call it before a command starts.
void require_distinct_files(const UsedFiles& files);

}  // namespace tp
