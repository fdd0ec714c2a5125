// One run of a command that serves a model: its process, its session, and what it says about errors.
#pragma once

#include "runtime/gateway/error_lines.h"
#include "runtime/gateway/job_files.h"
#include "runtime/http/http_server.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace tp {

// The processes of a session, on this host, that have not ended.
std::vector<pid_t> members_of_session(pid_t session);

// All members run on the thread of the HTTP server.
class Job {
 public:
  // Starts the command in a session of its own. `variables`: additions to the environment, "NAME=value". The
  // job gets SIGTERM if this process dies. The job's standard output and standard error are copied to this
  // process's standard error. Only standard error explains an end: standard output may be a model's text.
  Job(HttpServer& http, const std::vector<std::string>& command, const std::vector<std::string>& variables);
  // Kills what still runs.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Whether the process and all other members of its session have ended. After the process has ended, kills
  // the others, and then removes the files that mpirun leaves behind if it is killed.
  bool has_ended();
  // "exit status 1", "signal 9 (Killed)"; empty while the process runs.
  const std::string& end() const { return end_; }
  bool ended_well() const { return status_ == 0; }
  // Whether the end shows that no run of the command serves a model: it misses a program, its options are
  // wrong (status 2), or it has done other work.
  bool never_serves() const;

  // Sends the signal to the process alone. If the process is mpirun, it passes the signal on to its ranks.
  void signal(int number) const;
  // SIGKILL for all members of the session.
  void kill();

  pid_t process() const { return process_; }
  ErrorLines& errors() { return *errors_; }

 private:
  using Clock = std::chrono::steady_clock;

  void reap();
  void note_files();
  void note_files_now();

  pid_t process_ = -1;
  Clock::time_point started_ = Clock::now();
  Clock::time_point next_note_ = started_;
  JobFiles files_{};
  std::string end_{};
  int status_ = -1;  // exit status; -1: the process runs, or a signal ended it
  std::shared_ptr<ErrorLines> errors_ = std::make_shared<ErrorLines>();
  std::shared_ptr<const int> error_pipe_{};  // the descriptor from which errors_ are read
};

}  // namespace tp
