#include "runtime/gateway/supervisor.h"

#include "runtime/api/record.h"
#include "runtime/gateway/program_files.h"
#include "runtime/http/http_call.h"
#include "tp/error.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using namespace std::chrono_literals;

constexpr auto kTick = 20ms;
constexpr auto kHealthEvery = 1s;
// Time for mpirun to end a job that has lost a rank. A busy machine needs several seconds, and Open MPI 4.1's
// mpirun may crash if SIGTERM interrupts it meanwhile: its messages then blame another rank.
constexpr auto kEndTime = 15s;
constexpr auto kTermTime = 3s;     // between SIGTERM and SIGKILL
constexpr auto kLongestTick = 1s;  // a longer gap between two ticks is a suspension of this process
constexpr std::size_t kMaxRounds = 3;
constexpr double kMaxPause = 60.0;  // seconds

double seconds_since(Supervisor::Clock::time_point begin) {
  return std::chrono::duration<double>(Supervisor::Clock::now() - begin).count();
}

std::string new_secret() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// 0, 1, 2, 4, ... seconds.
Supervisor::Clock::duration pause_after(std::size_t failures) {
  const double seconds =
      failures == 0
          ? 0.0
          : std::min(kMaxPause, static_cast<double>(1ULL << std::min<std::size_t>(failures - 1, 10)));
  return std::chrono::duration_cast<Supervisor::Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

std::string_view name_of(JobState state) {
  constexpr std::string_view kNames[] = {"starting", "ready",   "restarting", "failing",
                                         "draining", "stopped", "ended"};
  return kNames[static_cast<std::size_t>(state)];
}

Supervisor::Supervisor(HttpServer& http, SupervisorOptions options, Events events)
    : http_(http), options_(std::move(options)), events_(std::move(events)) {}

void Supervisor::start() {
  if (state_ != JobState::stopped || ends_) return;
  state_ = JobState::starting;
  ticked_ = Clock::now();
  command_ = failed_rounds_ = crashes_ = 0;
  never_serves_ = true;
  start_job();
  tick_later();
}

void Supervisor::tick_later() {
  if (rests() || std::exchange(tick_waits_, true)) return;
  http_.post_after(kTick, [this] { tick(); });
}

// Adds the time of a suspension (SIGSTOP, `docker pause`) to all deadlines: the job was probably suspended,
// too.
void Supervisor::forgive_suspension() {
  const Clock::time_point now = Clock::now();
  const Clock::duration gap = now - std::exchange(ticked_, now);
  if (gap < kLongestTick) return;
  resumed_ = now;
  for (Clock::time_point* const time : {&started_, &healthy_, &term_at_, &kill_at_}) {
    if (*time != Clock::time_point::max()) *time += gap;
  }
}

void Supervisor::tick() {
  tick_waits_ = false;
  if (rests()) return;
  forgive_suspension();
  if (!job_) {
    if (Clock::now() >= next_start_) start_job();
  } else if (job_->has_ended()) {
    on_job_ended();
  } else if (Clock::now() >= kill_at_) {
    job_->kill();
  } else if (Clock::now() >= term_at_) {
    term_at_ = Clock::time_point::max();
    was_ended_ = true;
    job_->signal(SIGTERM);
  } else if (serves_) {
    watch_health();
  } else if (cause_.empty() && Clock::now() - started_ > options_.start_time) {
    lose(fmt::format("it was not ready after {:.0f} s (--start-seconds)", options_.start_time.count()));
  }
  tick_later();
}

void Supervisor::start_job() {
  secret_ = new_secret();
  started_ = Clock::now();
  term_at_ = kill_at_ = Clock::time_point::max();
  cause_.clear();
  has_served_ = reloads_ = was_ended_ = drains_ = false;
  if (state_ == JobState::draining) state_ = JobState::starting;
  ++starts_;
  programs_ = identity_of_programs(options_.commands[command_]);
  try {
    job_ = std::make_unique<Job>(http_, command(), variables());
  } catch (const Error& error) {  // no process or descriptor is left
    last_error_ = error.what();
    never_serves_ = false;
    on_start_failed();
  }
}

std::vector<std::string> Supervisor::command() const {
  std::vector<std::string> command = options_.commands[command_];
  const bool serves = std::ranges::find(command, "serve") != command.end();
  const bool has_same_bits = std::ranges::find(command, "--same-bits") != command.end();
  const bool has_drain_time = std::ranges::any_of(
      command, [](const std::string& argument) { return argument.starts_with("--drain-seconds"); });
  if (options_.same_bits && serves && !has_same_bits) command.emplace_back("--same-bits");
  // A server's own limit would cut answers that the gateway still waits for. The server needs a limit,
  // because nobody ends it if the gateway is killed.
  if (serves && !has_drain_time)
    command.insert(command.end(),
                   {"--drain-seconds", fmt::format("{:.0f}", std::ceil(options_.drain_time.count()))});
  return command;
}

std::vector<std::string> Supervisor::variables() {
  std::vector<std::string> variables = {
      fmt::format("{}={}{}", kAnnounceVariable, options_.announce_url, secret_)};
  if (!isa_.empty() && !unpinned_.contains(command_)) variables.push_back("TP_ISA=" + isa_);
  return variables;
}

bool Supervisor::announced(std::string_view secret, Announcement announcement, const std::string& client) {
  if (!job_ || serves_ || !cause_.empty() || was_asked_to_end() || secret != secret_) return false;
  announcement_ = std::move(announcement);
  server_ = {.host = is_wildcard(announcement_.host) ? client : announcement_.host,
             .port = announcement_.port};
  if (isa_.empty()) isa_ = announcement_.isa;
  serves_ = has_served_ = was_ready_ = true;
  healthy_ = next_health_ = ready_ = Clock::now();
  start_seconds_ = seconds_since(started_);
  failed_rounds_ = 0;
  lost_seconds_ = lost_seconds();
  lost_at_.reset();
  job_->errors().expect_errors();
  state_ = JobState::ready;
  events_.log(
      fmt::format("a job of {} rank{} on {} is ready at {}:{} after {:.1f} s (command {} of {}){}",
                  announcement_.ranks, announcement_.ranks == 1 ? "" : "s", announcement_.machine,
                  server_.host, server_.port, start_seconds_, command_ + 1, options_.commands.size(),
                  announcement_.isa == isa_ ? "" : "; its instruction set differs, so texts may differ"));
  events_.on_ready();
  return true;
}

void Supervisor::check_health() {
  if (!serves_) return;
  next_health_ = Clock::now();
  watch_health();
}

void Supervisor::watch_health() {
  if (Clock::now() - healthy_ > options_.hang_time)
    return lose(
        fmt::format("rank 0 has not answered for {:.0f} s (--hang-seconds)", options_.hang_time.count()));
  if (health_call_ || Clock::now() < next_health_) return;
  next_health_ = Clock::now() + kHealthEvery;
  auto status = std::make_shared<int>(0);
  auto body = std::make_shared<std::string>();
  HttpCallRequest request{.server = server_, .head = {.method = "GET", .target = "/health"}};
  request.head.headers = {{"Host", "localhost"}, {std::string(gateway_header::kSecret), secret_}};
  health_call_ =
      http_.call(std::move(request), {.on_head = [status](int found, const HttpHeaders&) { *status = found; },
                                      .on_piece = [body](std::string_view piece) { *body += piece; },
                                      .on_end =
                                          [this, status, body](const std::string& error) {
                                            health_call_.reset();
                                            on_health(*status, *body, error);
                                          }});
}

void Supervisor::on_health(int status, const std::string& body, const std::string& error) {
  if (!serves_) return;
  if (!error.empty()) return lose(fmt::format("rank 0 cannot be reached: {}", error), kEndTime);
  if (status != 200 && state_ != JobState::draining) return lose("rank 0 says that the job ends", kEndTime);
  healthy_ = Clock::now();
  const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
  const auto age = json.find("step_seconds");
  // Rank 0 counts a suspension as part of its step.
  if (age != json.end() && age->is_number() &&
      std::min(age->get<double>(), seconds_since(resumed_)) > options_.hang_time.count())
    lose(fmt::format("a step takes longer than {:.0f} s (--hang-seconds)", options_.hang_time.count()));
}

// Ends a job that is of no more use. `patience`: time to end by itself, because mpirun then names the lost
// rank.
void Supervisor::lose(std::string cause, Clock::duration patience) {
  if (!cause_.empty()) return;
  cause_ = std::move(cause);
  end_job_in(patience);
  give_up_serving(!was_asked_to_end());
}

void Supervisor::end_job_in(Clock::duration patience) {
  term_at_ = Clock::now() + patience;
  kill_at_ = term_at_ + kTermTime;
}

void Supervisor::give_up_serving(bool is_failure) {
  if (!std::exchange(serves_, false)) return;
  if (health_call_) std::exchange(health_call_, nullptr)->cancel();
  if (is_failure) lost_at_ = Clock::now();
  if (!was_asked_to_end()) state_ = JobState::restarting;
  events_.on_lost(is_failure);
}

void Supervisor::on_job_ended() {
  const bool was_asked = was_asked_to_end();
  give_up_serving(!was_asked);
  const std::string& line = job_->errors().best();
  last_error_ = line.empty() ? job_->end() : line;
  // A job that was told to end says only that it ends.
  if (was_ended_ && !cause_.empty() && !job_->errors().names_rank()) last_error_ = cause_;
  if (!has_served_ && !was_asked && job_->ended_well())
    last_error_ = "expected a command that runs tp-infer serve, found one that ends without an error";
  never_serves_ = never_serves_ && !was_ended_ && job_->never_serves();
  job_.reset();
  if (ends_) {
    state_ = JobState::ended;
    return events_.on_ended();
  }
  if (stops_) {
    events_.log("the job has ended, because it was not needed any more");
    return become_stopped();
  }
  if (was_asked) return start_in({});
  has_served_ ? on_served_job_ended() : on_start_failed();
}

void Supervisor::on_served_job_ended() {
  ++restarts_;
  command_ = 0;
  start_in(pause_after(crashes_++));
}

void Supervisor::on_start_failed() {
  if (last_error_.find("TP_ISA must be") != std::string::npos && unpinned_.insert(command_).second)
    return start_in({});
  if (++command_ < options_.commands.size()) return start_in({});
  command_ = 0;
  ++failed_rounds_;
  if (std::exchange(never_serves_, true) && !was_ready_) return give_up();
  start_in(pause_after(failed_rounds_));
  if (failed_rounds_ < kMaxRounds) return;
  state_ = JobState::failing;
  events_.on_failing(last_error_);
}

// Without a change of the commands, further starts would fail, too.
void Supervisor::give_up() {
  hopeless_ = last_error_;
  state_ = JobState::failing;
  events_.on_hopeless();
}

void Supervisor::start_in(Clock::duration pause) {
  next_start_ = Clock::now() + pause;
  events_.log(fmt::format(
      "the job has ended: {}; starting command {} of {} {}", last_error_, command_ + 1,
      options_.commands.size(),
      pause.count() == 0 ? "now" : fmt::format("in {:.0f} s", std::chrono::duration<double>(pause).count())));
}

bool Supervisor::reload(GatewayCommands commands) {
  const bool is_new_program = job_ && identity_of_programs(options_.commands[command_]) != programs_;
  // A hopeless command gets another try: its program or a file that it needs may be right now.
  if (ends_ || (commands == options_.commands && !is_new_program && hopeless_.empty())) return false;
  options_.commands = std::move(commands);
  command_ = failed_rounds_ = crashes_ = 0;
  never_serves_ = true;
  unpinned_.clear();
  next_start_ = {};
  if (!std::exchange(hopeless_, {}).empty()) state_ = JobState::stopped;
  if (job_ && !stops_) {
    reloads_ = true;
    drain();
  }
  return true;
}

void Supervisor::reload_keys() {
  if (!serves_) return;
  HttpCallRequest request{.server = server_, .head = {.method = "POST", .target = "/tp-infer/reload"}};
  request.head.headers = {{"Host", "localhost"},
                          {"Content-Type", "application/json"},
                          {std::string(gateway_header::kSecret), secret_}};
  auto status = std::make_shared<int>(0);
  http_.call(std::move(request),
             {.on_head = [status](int found, const HttpHeaders&) { *status = found; },
              .on_piece = [](std::string_view) {},
              .on_end =
                  [this, status](const std::string& error) {
                    constexpr int kUnchanged = 204;
                    if (*status == kUnchanged) return;
                    events_.log(error.empty() && *status == 200
                                    ? "the server has read its keys again"
                                    : "the server keeps its keys; its own messages have the reason");
                  }});
}

void Supervisor::stop() {
  if (ends_ || stops_ || rests()) return;
  if (!job_) return become_stopped();
  stops_ = true;
  drain();
}

void Supervisor::become_stopped() {
  stops_ = false;
  // Nobody waits for the job of a stopped model.
  lost_seconds_ = lost_seconds();
  lost_at_.reset();
  state_ = JobState::stopped;
  events_.on_stopped();
}

void Supervisor::end() {
  if (state_ == JobState::ended) return;
  if (std::exchange(ends_, true) && job_) return job_->kill();
  state_ = JobState::draining;
  if (job_) return drain();
  state_ = JobState::ended;
  events_.on_ended();
}

// mpirun passes SIGUSR1 to the ranks, and rank 0 answers the requests in flight before it ends.
void Supervisor::drain() {
  state_ = JobState::draining;
  if (!serves_) return end_job_in({});
  end_job_in(std::chrono::duration_cast<Clock::duration>(options_.drain_time));
  if (!std::exchange(drains_, true)) job_->signal(SIGUSR1);  // a second signal would end the answers
}

double Supervisor::retry_after() const {
  const double waits =
      std::chrono::duration<double>(std::max(Clock::duration(0), next_start_ - Clock::now())).count();
  const double starts = job_ && !serves_ ? start_seconds_ - seconds_since(started_) : start_seconds_;
  return std::max(1.0, waits + starts);
}

double Supervisor::lost_seconds() const {
  return lost_seconds_ + (lost_at_ ? seconds_since(*lost_at_) : 0.0);
}

}  // namespace tp
