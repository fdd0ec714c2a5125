// Keeps the job of one model running: starts it, notices its loss, and starts the next one. README.md has the
// states.
#pragma once

#include "runtime/gateway/announcement.h"
#include "runtime/gateway/config.h"
#include "runtime/gateway/job.h"
#include "runtime/http/http_server.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

struct SupervisorOptions {
  using Seconds = std::chrono::duration<double>;

  GatewayCommands commands{};  // in order of preference
  bool same_bits = true;       // add --same-bits to the commands
  std::string announce_url{};  // without the secret; ends with a slash
  Seconds start_time{1800};    // longest time until a job is ready
  Seconds hang_time{60};       // longest step, and longest time without an answer
  Seconds drain_time{60};      // longest time until a drained job has ended; also added to the commands
};

enum class JobState : std::uint8_t { starting, ready, restarting, failing, draining, stopped, ended };
std::string_view name_of(JobState state);

// All members run on the thread of the HTTP server.
class Supervisor {
 public:
  using Clock = std::chrono::steady_clock;

  struct Events {
    std::function<void()> on_ready{};  // requests may be sent to server()
    // Requests in flight will not be answered. `is_failure`: the job was lost; it was not told to end.
    std::function<void(bool is_failure)> on_lost{};
    std::function<void(const std::string& reason)> on_failing{};
    // No command can start a server: hopeless() has the reason. The supervisor rests until reload().
    std::function<void()> on_hopeless{};
    std::function<void()> on_stopped{};  // after stop()
    std::function<void()> on_ended{};    // after end()
    std::function<void(const std::string& line)> log{};
  };

  Supervisor(HttpServer& http, SupervisorOptions options, Events events);

  // Starts a job, and others after it, until stop() or end(). Does nothing if a job runs, or if no command
  // can start a server.
  void start();
  // Drains the job. Starts no other until start().
  void stop();
  // Whether the current job has this secret.
  bool expects(std::string_view secret) const { return job_ && secret == secret_; }
  // A job announces itself from this address. Returns false if the secret is not that of the current job.
  bool announced(std::string_view secret, Announcement announcement, const std::string& client);
  // A connection to the job broke, so asks for its health at once.
  void check_health();
  // A request got a token or an answer, so the job works.
  void note_progress() { crashes_ = 0; }
  // Drains the job and starts the first of these commands, unless they are the current ones, and the programs
  // of the current command are still the files that the job was started from. Returns whether it does.
  bool reload(GatewayCommands commands);
  // Asks the job to read its file of keys again.
  void reload_keys();
  // Drains the job and starts no other. A second call ends the job at once.
  void end();

  JobState state() const { return state_; }
  bool is_ready() const { return state_ == JobState::ready; }
  bool is_ending() const { return ends_; }
  // Whether the job, or the wait for the next one, takes the group.
  bool is_active() const {
    return state_ != JobState::stopped && state_ != JobState::ended && hopeless_.empty();
  }
  // Begin of the current state `ready`, or of the current start.
  Clock::time_point active_since() const { return serves_ ? ready_ : started_; }
  // Duration of the last start that became ready.
  std::chrono::duration<double> start_time() const { return std::chrono::duration<double>(start_seconds_); }
  const HttpUrl& server() const { return server_; }
  const std::string& secret() const { return secret_; }
  const std::string& model() const { return announcement_.model; }
  // The announcement of the last job that was ready; empty before it.
  const Announcement& announcement() const { return announcement_; }
  // Whether the job computes the same bits as all jobs before it.
  bool is_exact() const { return options_.same_bits && announcement_.isa == isa_; }
  // The reason why the last job was lost or did not start.
  const std::string& last_error() const { return last_error_; }
  // Why no command can start a server; empty unless the supervisor has given up for this reason.
  const std::string& hopeless() const { return hopeless_; }
  std::size_t starts() const { return starts_; }
  // Seconds until a job is probably ready.
  double retry_after() const;

  std::size_t restarts() const { return restarts_; }
  double lost_seconds() const;  // time between a loss and the next ready job, or the stop of the model

 private:
  void tick();
  void forgive_suspension();
  void tick_later();
  void start_job();
  std::vector<std::string> command() const;
  std::vector<std::string> variables();
  void watch_health();
  void on_health(int status, const std::string& body, const std::string& error);
  void lose(std::string cause, Clock::duration patience = {});
  void end_job_in(Clock::duration patience);
  void give_up_serving(bool is_failure);
  void on_job_ended();
  void on_served_job_ended();
  void on_start_failed();
  void give_up();
  void become_stopped();
  bool rests() const { return !is_active(); }
  bool was_asked_to_end() const { return ends_ || reloads_ || stops_; }
  void start_in(Clock::duration pause);
  void drain();

  HttpServer& http_;
  SupervisorOptions options_;
  Events events_;
  JobState state_ = JobState::stopped;

  std::unique_ptr<Job> job_;  // null between two jobs
  std::string secret_{};
  Announcement announcement_{};
  HttpUrl server_{};
  bool serves_ = false;      // the job has announced itself, and is not lost
  bool has_served_ = false;  // the job has announced itself
  bool was_ended_ = false;   // the job was sent SIGTERM
  bool drains_ = false;      // the job was sent SIGUSR1
  std::string cause_{};      // why the job is being ended; empty: it is not
  Clock::time_point term_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();
  Clock::time_point started_{};
  Clock::time_point ready_{};
  std::string programs_{};  // identity of the job's program files
  std::shared_ptr<HttpCall> health_call_;
  Clock::time_point next_health_{};
  Clock::time_point healthy_{};  // time of the last good answer
  Clock::time_point ticked_{};   // time of the last tick
  Clock::time_point resumed_{};  // end of this process's last suspension

  std::size_t command_ = 0;  // index of the current command
  Clock::time_point next_start_{};
  std::size_t failed_rounds_ = 0;     // rounds over all commands in which no job became ready
  std::size_t crashes_ = 0;           // jobs in a row that were lost without any progress
  std::set<std::size_t> unpinned_{};  // commands whose hosts lack the instruction set `isa_`
  std::string isa_{};                 // instruction set of the first job
  double start_seconds_ = 10.0;       // duration of the last start, until ready
  bool tick_waits_ = false;
  bool reloads_ = false;
  bool stops_ = false;
  bool ends_ = false;
  std::string last_error_{};
  bool was_ready_ = false;    // a job has been ready
  bool never_serves_ = true;  // all jobs of this round have shown that their commands never serve
  std::string hopeless_{};
  std::size_t starts_ = 0;
  std::size_t restarts_ = 0;
  std::optional<Clock::time_point> lost_at_{};
  double lost_seconds_ = 0.0;
};

}  // namespace tp
