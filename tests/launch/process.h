// A program that a test starts and watches from outside, including all processes that the program starts.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace tp::test {

struct Finished {
  int status = 0;  // exit status, or 128 + the signal that ended the program
  std::string out;
  std::string err;
  double seconds = 0.0;
};

struct StartOptions {
  std::string input{};             // content of standard input
  bool keep_input_open = false;    // allows write_input() and close_input()
  std::filesystem::path folder{};  // working folder; empty: the current one
  // All three streams are a terminal of 80 columns. `out` is the text that it shows.
  bool on_terminal = false;
  std::vector<std::string> variables{};  // environment variables: "NAME=value"
};

// The destructor kills processes that are still running, and the test fails.
class Process {
 public:
  explicit Process(const std::vector<std::string>& command, const StartOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits until the output satisfies the condition. Returns false if the program ends or `seconds` pass
  // before.
  bool wait_for_output(const std::function<bool(const std::string& out)>& condition, double seconds = 20);
  // Waits for a condition on stderr, or for a text in it.
  bool wait_for_error(const std::function<bool(const std::string& err)>& condition, double seconds = 20);
  bool wait_for_message(const std::string& message, double seconds = 20);
  // Returns how often output has arrived.
  std::size_t reads() const { return reads_; }

  void write_input(std::string_view text) const;
  void close_input();

  // Waits for the end. The test fails if this takes longer than `seconds`.
  Finished finish(double seconds = 40);

  // Returns the started process: mpirun, if it starts the ranks.
  pid_t pid() const { return pid_; }
  // Returns the process of a rank that mpirun started, or -1.
  pid_t rank(int rank) const;
  // Returns all running processes of the program.
  std::vector<pid_t> members() const;

 private:
  bool wait_for(const std::function<bool()>& condition, double seconds);
  bool read_some(double seconds);
  bool ended();
  void kill_members() const;

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string mark_;  // an environment variable of all members
  pid_t pid_ = -1;
  int input_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool reaped_ = false;
  std::size_t reads_ = 0;
  Finished finished_;
};

// Returns a command line that starts mpirun with its options and a script that runs commands[i] on rank i.
// Debian 13's mpirun crashes with the shorter `mpirun A : B`.
std::vector<std::string> by_rank(std::vector<std::string> mpirun,
                                 const std::vector<std::vector<std::string>>& commands);

// Returns the seconds of processor time that a process has used.
double processor_seconds(pid_t process);

// Returns how often a process's first thread has gone to sleep.
std::size_t sleeps_of(pid_t process);

// A condition for `wait_for_output`: output has begun.
inline bool has_begun(const std::string& out) { return out.size() > 20; }

}  // namespace tp::test
