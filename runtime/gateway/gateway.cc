#include "runtime/gateway/gateway.h"

#include "model/files/parse_number.h"
#include "runtime/api/answer_format.h"
#include "runtime/api/api_error.h"
#include "tp/error.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace tp {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kAnnouncePath = "/tp-infer/announce/";
constexpr auto kFlushTime = 2s;

HttpResponse response_of(const HttpRequest& request, const ApiError& error) {
  const bool is_anthropic = expects_anthropic_errors(request.path(), request.header("anthropic-version"));
  HttpResponse response{.status = error.status, .body = json_text(error_body(is_anthropic, error))};
  if (error.retry_after)
    response.headers.emplace_back("Retry-After", fmt::format("{:.0f}", std::max(1.0, *error.retry_after)));
  return response;
}

// The name under which other hosts know this one, for an address that stands for all addresses.
std::string reachable(const std::string& host) {
  if (host != "0.0.0.0" && host != "::")
    return host.find(':') == host.npos ? host : fmt::format("[{}]", host);
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

bool is_health(std::string_view path) { return path == "/health" || path == "/v1/health"; }

}  // namespace

Gateway::Gateway(GatewayOptions options)
    : options_(std::move(options)), http_(std::make_unique<HttpServer>(http_options())) {
  SupervisorOptions of_jobs = options_.supervisor;
  of_jobs.announce_url = url();
  supervisor_ = std::make_unique<Supervisor>(*http_, std::move(of_jobs), events());
  dispatcher_ = std::make_unique<Dispatcher>(*http_, *supervisor_);
  constructed_.set_value();
}

Gateway::~Gateway() { http_.reset(); }

HttpOptions Gateway::http_options() {
  HttpOptions options{.host = options_.host, .port = options_.port, .limits = options_.limits};
  options.route = [this](const HttpRequest& head) { return route(head); };
  options.refuse = [this](const HttpRequest& head, int status, std::string_view message) {
    is_constructed_.wait();
    return with_origins(head, response_of(head, {.status = status, .message = std::string(message)}));
  };
  return options;
}

std::string Gateway::url() const {
  return fmt::format("http://{}:{}{}", reachable(options_.host), port(), kAnnouncePath);
}

std::string Gateway::run() {
  http_->post([this] { supervisor_->start(); });
  {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return has_ended_; });
  }
  http_->flush(kFlushTime);
  return supervisor_->hopeless();
}

Supervisor::Events Gateway::events() {
  Supervisor::Events events;
  events.on_ready = [this] { dispatcher_->dispatch(); };
  events.on_lost = [this](bool is_failure) { dispatcher_->on_lost(is_failure); };
  events.on_failing = [this](const std::string&) { dispatcher_->fail_all(unavailable()); };
  events.on_ended = [this] {
    dispatcher_->fail_all({.status = 503, .message = "the server is shutting down", .retry_after = 10.0});
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    ended_.notify_one();
  };
  events.log = [this](const std::string& line) {
    if (options_.log)
      options_.log(
          fmt::format("tp-infer gateway: {}; {} requests are kept", line, dispatcher_->kept_requests()));
  };
  return events;
}

void Gateway::reload(std::vector<std::vector<std::string>> commands) {
  http_->post([this, commands = std::move(commands)]() mutable { supervisor_->reload(std::move(commands)); });
}

void Gateway::end() {
  http_->post([this] { supervisor_->end(); });
}

HttpDecision Gateway::route(const HttpRequest& head) {
  is_constructed_.wait();
  const std::string_view path = head.path();
  if (is_health(path)) return [this](const Exchange& exchange) { answer_health(*exchange); };
  if (path == "/metrics") return [this](const Exchange& exchange) { answer_metrics(exchange); };
  if (path.starts_with(kAnnouncePath))
    return [this](const Exchange& exchange) { take_announcement(*exchange); };
  if (const std::optional<ApiError> error = refusal(head)) return refuse(head, *error);
  return [this](const Exchange& exchange) { dispatcher_->add(exchange); };
}

// Web pages of allowed origins may read the response.
HttpResponse Gateway::with_origins(const HttpRequest& head, HttpResponse response) const {
  for (const auto& header : supervisor_->origins().headers(head)) response.headers.push_back(header);
  return response;
}

// A browser sends no request after an OPTIONS that fails, and would hide the reason from the page.
HttpResponse Gateway::refuse(const HttpRequest& head, const ApiError& error) const {
  if (head.method != "OPTIONS") return with_origins(head, response_of(head, error));
  HttpResponse response = with_origins(head, {.status = 204, .content_type = ""});
  for (const auto& header : supervisor_->origins().preflight_headers(head, "GET, POST, DELETE, OPTIONS"))
    response.headers.push_back(header);
  return response;
}

// The reason why a request cannot be kept.
std::optional<ApiError> Gateway::refusal(const HttpRequest& head) const {
  const JobState state = supervisor_->state();
  if (state == JobState::failing || state == JobState::ended || supervisor_->is_ending())
    return unavailable();
  const std::size_t length = parse_number<std::size_t>(head.header("content-length")).value_or(0);
  if (dispatcher_->kept_bytes() + length <= options_.keep_bytes) return std::nullopt;
  return ApiError{
      .status = 503,
      .message = fmt::format("the gateway keeps requests of {} bytes, of at most {} (--keep-bytes); try "
                             "again later",
                             dispatcher_->kept_bytes(), options_.keep_bytes),
      .retry_after = supervisor_->retry_after()};
}

ApiError Gateway::unavailable() const {
  const JobState state = supervisor_->state();
  std::string message = fmt::format("no job is ready: {}", name_of(state));
  if (supervisor_->is_ending()) message = "this server is shutting down; use another one";
  if (state == JobState::failing || state == JobState::restarting)
    message += fmt::format("; the last one ended: {}", supervisor_->last_error());
  return {.status = 503,
          .message = std::move(message),
          .code = std::string(name_of(state)),
          .retry_after = supervisor_->retry_after()};
}

void Gateway::answer_health(HttpExchange& exchange) const {
  if (!supervisor_->is_ready()) return exchange.respond(refuse(exchange.request(), unavailable()));
  exchange.respond({.body = json_text({{"status", "ok"}, {"state", name_of(supervisor_->state())}})});
}

void Gateway::answer_metrics(const Exchange& exchange) {
  if (supervisor_->is_ready()) return dispatcher_->add(exchange, [this] { return own_metrics(); });
  exchange->respond({.body = own_metrics(), .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

std::string Gateway::own_metrics() const {
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, auto value) {
    text += fmt::format(
        "# HELP tpinfer:gateway_{0} {1}\n# TYPE tpinfer:gateway_{0} {2}\ntpinfer:gateway_{0} {3}\n", name,
        help, type, value);
  };
  add("ready", "gauge", "Whether a job is ready.", supervisor_->is_ready() ? 1 : 0);
  add("restarts_total", "counter", "Jobs that were ready and then lost.", supervisor_->restarts());
  add("resumed_answers_total", "counter", "Answers continued after tokens of a lost job.",
      dispatcher_->resumed());
  add("lost_seconds_total", "counter", "Seconds between a loss and the next ready job.",
      supervisor_->lost_seconds());
  add("kept_requests", "gauge", "Requests that wait or are in progress.", dispatcher_->kept_requests());
  add("kept_bytes", "gauge", "Bytes of kept requests and their records.", dispatcher_->kept_bytes());
  return text;
}

void Gateway::take_announcement(HttpExchange& exchange) {
  const std::string secret = secret_in(exchange.request().path());
  try {
    Announcement announcement = parse_announcement(exchange.take_body());
    const bool is_known = supervisor_->announced(secret, std::move(announcement), exchange.request().client);
    exchange.respond({.status = is_known ? 200 : 403, .body = "{}"});
  } catch (const RequestError& error) {
    exchange.respond(response_of(exchange.request(), {.status = 400, .message = error.what()}));
  }
}

}  // namespace tp
