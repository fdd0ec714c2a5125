// The output of a command's results.
#pragma once

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace tp {

// Standard output, or the file of --output. All writes and the close are checked, because lost results must
// not end with exit status 0. Only rank 0 has an output.
//
// Under mpirun, standard output is a pipe to mpirun. mpirun ignores a full disk, so only files are checked
// completely.
class ResultOutput {
 public:
  enum class Existing { replace, append };

  // Opens the file `path`, which need not exist, or standard output if `path` is empty or "-". An existing
  // file keeps its content until the first write, so early mistakes cost nothing. A regular file is locked if
  // its file system supports it, because two jobs would mix their lines. `content` names the results in
  // errors. Throws Error.
  explicit ResultOutput(const std::string& path = {}, Existing existing = Existing::replace,
                        std::string_view content = "the results");
  ~ResultOutput();
  ResultOutput(const ResultOutput&) = delete;
  ResultOutput& operator=(const ResultOutput&) = delete;

  // Passes the whole text to the operating system. Throws Error with the operating system's reason. At a
  // terminal, control characters except newlines and tabs become '?', because a model's text could steer the
  // terminal.
  void write(std::string_view text);

  // Also writes text that may style a terminal, and whose control characters the caller has removed.
  void write_styled(std::string_view text);

  // Whether what is written shows on a terminal.
  bool is_terminal() const { return is_terminal_; }

  // Closes the file after the last write. Some file systems report a failure only then. Throws Error.
  void finish();

 private:
  void write_all(std::string_view text);
  void replace_once();
  [[noreturn]] void fail(int error) const;

  std::string name_;
  int descriptor_;
  bool is_terminal_ = false;
  bool replaces_ = false;  // a regular file still has its old contents
};

// Adds --output to a subcommand.
void add_output_option(CLI::App& command, std::string& path);

}  // namespace tp
