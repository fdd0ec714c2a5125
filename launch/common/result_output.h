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

  // Opens the file `path`, which need not be there; standard output for an empty path and for "-". What is to
  // be replaced stays until the first write, so that a mistake that shows up before costs nothing. A regular
  // file is locked where its file system can do that: two jobs would mix their lines. `content` is what
  // errors call what is written. Throws Error.
  explicit ResultOutput(const std::string& path = {}, Existing existing = Existing::replace,
                        std::string_view content = "the results");
  ~ResultOutput();
  ResultOutput(const ResultOutput&) = delete;
  ResultOutput& operator=(const ResultOutput&) = delete;

  // Hands all of `text` to the operating system. Throws Error with the operating system's reason. At a
  // terminal control characters become '?', but newlines and tabs: a model may say anything, and with some of
  // them it would steer the terminal.
  void write(std::string_view text);

  // Also writes text that may style a terminal, and whose control characters the caller has removed.
  void write_styled(std::string_view text);

  // Whether what is written shows on a terminal.
  bool is_terminal() const { return is_terminal_; }

  // Call it after the last write: closes the file, which is when some file systems report a failure. Throws
  // Error.
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
