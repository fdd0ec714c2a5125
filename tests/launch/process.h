// A program that a test starts and watches from outside, with all the processes that it starts in turn.
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
  int status = 0;  // the exit status, or 128 + the signal that ended it
  std::string out;
  std::string err;
  double seconds = 0.0;
};

struct StartOptions {
  std::string input{};             // of standard input
  bool keep_input_open = false;    // for write_input() and close_input()
  std::filesystem::path folder{};  // to start in; empty: the current one
  // All three streams are a terminal of 80 columns. What it shows is `out`.
  bool on_terminal = false;
  std::vector<std::string> variables{};  // of the environment: "NAME=value"
};

// What is still running when the object goes is killed, and is a failure of the test.
class Process {
 public:
  explicit Process(const std::vector<std::string>& command, const StartOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits until what came out satisfies the condition; false if the program ended or `seconds` passed before.
  bool wait_for_output(const std::function<bool(const std::string& out)>& condition, double seconds = 20);
  // The same of what came on stderr; wait_for_message waits for one text.
  bool wait_for_error(const std::function<bool(const std::string& err)>& condition, double seconds = 20);
  bool wait_for_message(const std::string& message, double seconds = 20);
  // How often something came out so far.
  std::size_t reads() const { return reads_; }

  void write_input(std::string_view text) const;
  void close_input();

  // Waits for the end. Taking longer than `seconds` is a failure of the test.
  Finished finish(double seconds = 40);

  // The process itself: mpirun where it starts the ranks.
  pid_t pid() const { return pid_; }
  // Of a program that mpirun started: the process of a rank, or -1.
  pid_t rank(int rank) const;
  // Everything that belongs to the program and runs.
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

// mpirun, with its options, and a script that runs commands[i] in rank i. Debian 13's mpirun crashes at the
// shorter `mpirun A : B`.
std::vector<std::string> by_rank(std::vector<std::string> mpirun,
                                 const std::vector<std::vector<std::string>>& commands);

// Seconds of processor time that a process has used.
double processor_seconds(pid_t process);

// How often a process's first thread has gone to sleep.
std::size_t sleeps_of(pid_t process);

// A condition for `wait_for_output`: a text has begun.
inline bool has_begun(const std::string& out) { return out.size() > 20; }

}  // namespace tp::test
