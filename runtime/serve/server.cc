#include "runtime/serve/server.h"

#include "model/files/json_text.h"
#include "model/kernels/simd/isa.h"
#include "runtime/api/answer_format.h"
#include "runtime/api/api_error.h"
#include "runtime/gateway/announcement.h"
#include "runtime/serve/endpoints.h"
#include "runtime/serve/router.h"
#include "tp/error.h"

#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace tp {
namespace {

using namespace std::chrono_literals;

constexpr auto kReportEvery = 1s;
constexpr auto kFlushTime = 500ms;
constexpr auto kStepPatience = 500ms;
constexpr auto kAnnounceTime = 10s;

ApiError ended(std::string message) {
  return {.status = 503, .message = std::move(message), .retry_after = 10.0, .job_ends = true};
}

}  // namespace

Server::Server(const ServeOptions& options) : service_(options), http_(http_options()) {
  service_.http = &http_;
}

Server::~Server() {
  if (service_.state != ServerState::failed) service_.state = ServerState::draining;
  service_.pool.stop();  // the tasks use the connections
  service_.events.stop();
}

HttpOptions Server::http_options() {
  HttpOptions options{
      .host = service_.options.host, .port = service_.options.port, .limits = service_.options.limits};
  options.route = [this](HttpRequest& head) { return route_request(service_, head); };
  options.refuse = [this](const HttpRequest& head, int status, std::string_view message) {
    const ApiError error{.status = status, .message = std::string(message)};
    service_.metrics.count_refusal(status);
    // A connection that sends no HTTP has no method.
    if (!head.method.empty()) service_.log_request(head, {.status = status, .reason = short_reason(error)});
    return service_.response_of(head, error);
  };
  return options;
}

void Server::run(OpenModel model, const std::function<void()>& on_ready) {
  Engine& engine = *model.engine;
  service_.model = std::move(model);
  service_.is_open = true;
  report(engine, true);
  ServerState expected = ServerState::loading;
  service_.state.compare_exchange_strong(expected, ServerState::ready);
  on_ready();
  try {
    while (!is_done()) {
      if (engine.wait_for_work(100ms)) step(engine);
      report(engine, Clock::now() - last_report_ >= kReportEvery);
    }
  } catch (const std::exception&) {
    service_.state = ServerState::failed;
    // Only the log gets the reason, which may contain names of files and hosts.
    end(ended("the server ends after an error of its own"));
    throw;
  }
  end(ended("the server is shutting down"));
  while (engine.has_work()) engine.step();  // only ends cancelled requests
  has_returned_ = true;
}

// Ends all calls with this error.
void Server::end(const ApiError& error) {
  service_.pool.stop();  // queued requests start now and end with the others
  service_.end_all(error);
  service_.events.stop();
  http_.flush(kFlushTime);
}

bool Server::is_done() {
  if (leaves_) return true;
  if (service_.state != ServerState::draining) return false;
  return http_.open_requests() == 0 || Clock::now() >= drained_by_.load();
}

void Server::step(Engine& engine) {
  is_stepping_ = true;
  service_.step_began = Clock::now();
  engine.step();
  ++steps_;
  is_stepping_ = false;
  service_.step_began = Clock::time_point{};
  has_stepped_ = true;
  const TimeParts time = engine.own_time();
  service_.set_steps({.compute = time.compute,
                      .collectives = time.collectives,
                      .waiting = time.collectives * share_of_waiting_});
}

// Collects the ranks' times. Runs between steps, because all ranks take part.
void Server::report(Engine& engine, bool is_due) {
  if (!is_due || (!has_stepped_ && last_report_ != Clock::time_point{})) return;
  std::vector<RankReport> reports = engine.reports();
  const TimeParts& own = reports.front().time;
  const double exchanging = own.collectives + own.waiting;
  share_of_waiting_ = exchanging > 0 ? own.waiting / exchanging : 0.0;
  service_.metrics.set_reports(std::move(reports));
  last_report_ = Clock::now();
  has_stepped_ = false;
}

void Server::announce(const HttpUrl& gateway, std::size_t ranks,
                      std::function<void(const std::string& error)> failed) {
  const EngineInfo& info = service_.model.engine->info();
  char machine[256] = "";
  ::gethostname(machine, sizeof(machine) - 1);
  std::string names;
  for (const AdapterInfo& adapter : info.adapters)
    names += fmt::format("{} {}\n", adapter.name, adapter.identity);
  const std::string adapters = names.empty() ? "" : fmt::format(" {:016x}", std::hash<std::string>()(names));
  const Announcement announcement{
      .host = service_.options.host,
      .port = port(),
      .process = ::getpid(),
      .machine = machine,
      .isa = std::string(kernels::name_of(kernels::active_isa())),
      .card = json_text(endpoints::model_card(service_, model_name())),
      .model = fmt::format("{} {} {} {} {}{}", model_name(), info.config.architecture, info.parameters,
                           info.config.vocab_size, name_of(info.weights), adapters),
      .ranks = ranks,
      .origins = service_.options.access.origins};
  HttpCallRequest request{.server = gateway,
                          .head = {.method = "POST", .target = gateway.path},
                          .begin_of_body = announcement.to_text(),
                          .silence = kAnnounceTime};
  request.head.headers = {{"Host", gateway.host}, {"Content-Type", "application/json"}};
  auto status = std::make_shared<int>(0);
  http_.call(std::move(request),
             {.on_head = [status](int found, const HttpHeaders&) { *status = found; },
              .on_end =
                  [status, failed = std::move(failed)](const std::string& error) {
                    if (!error.empty() || *status != 200)
                      failed(error.empty() ? fmt::format("it answered with status {}", *status) : error);
                  }});
}

void Server::drain(std::chrono::milliseconds longest) {
  drained_by_ = Clock::now() + longest;
  ServerState state = service_.state;
  while (state != ServerState::failed &&
         !service_.state.compare_exchange_weak(state, ServerState::draining)) {
  }
}

void Server::leave(const std::function<void()>& if_stuck) {
  leaves_ = true;
  drain(0ms);
  http_.post_after(kStepPatience, [this, if_stuck] {
    if (has_returned_) return;
    tell_of_loss();
    http_.post_after(kFlushTime, [this, if_stuck] {
      if (!has_returned_) if_stuck();
    });
  });
}

void Server::suspect_loss(std::chrono::milliseconds patience) {
  http_.post_after(patience, [this, before = steps_.load()] {
    if (is_stepping_ && steps_ == before) tell_of_loss();
  });
}

void Server::tell_of_loss() {
  service_.state = ServerState::failed;
  service_.end_all(ended("the server ends: a rank was lost, or mpirun was told to end the job"));
}

}  // namespace tp
