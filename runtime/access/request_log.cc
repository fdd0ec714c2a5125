#include "runtime/access/request_log.h"

#include "model/files/json_text.h"
#include "model/files/printable.h"
#include "runtime/api/rounded.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

std::string now() {
  const auto time = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
                     ms);
}

// Text of a client, without the characters that separate the fields of a line. Otherwise a client could add
// fields, such as the name of another key.
std::string shown_value(const std::string& text) {
  std::string shown = printable(text);
  std::ranges::replace_if(
      shown, [](char c) { return c == ' ' || c == '=' || c == '"'; }, '?');
  return shown;
}

// Words of this server that may quote a client. They may have spaces, but look like no field.
std::string shown_words(const std::string& text) {
  std::string shown = printable(text);
  std::ranges::replace(shown, '=', '?');
  return shown;
}

// The name of a member, which a client may have invented.
std::string param_of(const LoggedRequest& request) { return request.param.substr(0, 64); }

// A few words of this server, which may quote a client.
std::string shown_reason(const LoggedRequest& request) { return printable(request.reason); }

Json json_of(const LoggedRequest& request) {
  Json line = {{"time", now()},        {"client", request.client}, {"method", request.method},
               {"path", request.path}, {"status", request.status}, {"seconds", rounded(request.total)}};
  if (!request.user.empty()) line["user"] = request.user;
  if (!request.model.empty()) line["model"] = request.model;
  if (request.by_gateway) line["by"] = "gateway";
  if (!request.id.empty()) line["id"] = request.id;
  if (!request.request_id.empty()) line["request_id"] = request.request_id;
  if (request.prompt_tokens != 0) {
    line["prompt_tokens"] = request.prompt_tokens;
    line["cached_tokens"] = request.cached_tokens;
    line["generated_tokens"] = request.generated_tokens;
    line["queued_seconds"] = rounded(request.queued);
    line["first_token_seconds"] = rounded(request.first_token);
  }
  if (!request.param.empty()) line["param"] = printable(param_of(request));
  if (!request.reason.empty()) line["reason"] = shown_reason(request);
  if (!request.warnings.empty()) line["warnings"] = request.warnings;
  return line;
}

std::string text_of(const LoggedRequest& request) {
  std::string line = fmt::format("{} {} {} {} {}", now(), shown_value(request.client),
                                 shown_value(request.method), shown_value(request.path), request.status);
  if (!request.user.empty()) line += fmt::format(" user={}", request.user);
  if (!request.model.empty()) line += fmt::format(" model={}", shown_value(request.model));
  if (request.by_gateway) line += " by=gateway";
  if (!request.id.empty()) line += fmt::format(" {}", request.id);
  if (request.prompt_tokens != 0) {
    line += fmt::format(" prompt={} cached={} generated={} queued={:.3f}s first_token={:.3f}s",
                        request.prompt_tokens, request.cached_tokens, request.generated_tokens,
                        request.queued, request.first_token);
  }
  line += fmt::format(" total={:.3f}s", request.total);
  if (!request.request_id.empty()) line += fmt::format(" request={}", shown_value(request.request_id));
  if (!request.param.empty()) line += " param=" + shown_value(param_of(request));
  if (!request.reason.empty()) line += " " + shown_words(request.reason);
  for (const std::string& warning : request.warnings) line += "; warning: " + shown_words(warning);
  return line;
}

}  // namespace

LoggedRequest logged(const HttpRequest& request, LoggedRequest line) {
  constexpr std::size_t kMaxOfId = 128;  // a client chose it
  line.client = request.client;
  line.user = request.user;
  line.method = request.method;
  line.path = printable(request.path());
  line.request_id = printable(request.header("x-request-id").substr(0, kMaxOfId));
  return line;
}

std::string log_line(const LoggedRequest& request, bool as_json) {
  return as_json ? json_text(json_of(request)) : text_of(request);
}

// Shared with the thread, which may outlive the log.
struct RequestLog::State {
  explicit State(Sink given) : sink(std::move(given)) {}

  static void run(const std::shared_ptr<State>& state) {
    std::unique_lock lock(state->mutex);
    for (;;) {
      state->changed.wait(lock, [&] { return state->ends || !state->lines.empty(); });
      if (state->lines.empty()) break;
      std::deque<std::string> lines = std::exchange(state->lines, {});
      if (state->dropped != 0)
        lines.push_back(fmt::format("{} lines of the log were lost", std::exchange(state->dropped, 0)));
      lock.unlock();
      for (const std::string& line : lines) state->sink(line);
      lock.lock();
    }
    state->has_ended = true;
    state->changed.notify_all();
  }

  Sink sink;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  std::size_t dropped = 0;
  bool ends = false;
  bool has_ended = false;
};

RequestLog::RequestLog(const Sink& sink, bool as_json) : as_json_(as_json) {
  if (!sink) return;
  state_ = std::make_shared<State>(sink);
  std::thread([state = state_] { State::run(state); }).detach();
}

RequestLog::~RequestLog() {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->ends = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, std::chrono::milliseconds(500), [this] { return state_->has_ended; });
}

void RequestLog::add(const LoggedRequest& request) const {
  constexpr std::size_t kMaxLines = 10'000;
  if (!state_) return;
  std::string line = log_line(request, as_json_);
  const std::lock_guard lock(state_->mutex);
  if (state_->lines.size() >= kMaxLines) {
    ++state_->dropped;
    return;
  }
  state_->lines.push_back(std::move(line));
  state_->changed.notify_all();
}

}  // namespace tp
