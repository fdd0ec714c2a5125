// Where a command's results go.
#pragma once

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace tp {

// Standard output, or the file of --output. Every write is checked, and so is the close: lost results must
// not end with exit status 0. Rank 0 alone has one.
//
// Under mpirun standard output is a pipe to mpirun, which writes it wherever its own standard output goes and
// ignores a full disk: only a file is checked to the end there.
class ResultOutput {
 public:
  enum class Existing { replace, append };

  // Creates the file `path`, or opens it as `existing` says; standard output for an empty path and for "-".
  // Throws Error.
  explicit ResultOutput(const std::string& path = {}, Existing existing = Existing::replace);
  ~ResultOutput();
  ResultOutput(const ResultOutput&) = delete;
  ResultOutput& operator=(const ResultOutput&) = delete;

  // Hands all of `text` to the operating system. Throws Error with the operating system's reason.
  void write(std::string_view text) const;

  // Call it after the last write: closes the file, which is when some file systems report a failure. Throws
  // Error.
  void finish();

 private:
  [[noreturn]] void fail(int error) const;

  std::string name_;
  int descriptor_;
};

// Adds --output to a subcommand.
void add_output_option(CLI::App& command, std::string& path);

// Throws RequestError if writing to `output` would destroy `input` before it is read; "-" is standard input.
void require_other_file(const std::string& input, const std::string& output);

}  // namespace tp
