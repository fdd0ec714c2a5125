#include "runtime/gateway/dispatcher.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

using namespace std::chrono_literals;
using Progress = KeptRequest::Progress;

constexpr auto kBreakTime = 200ms;     // after a connection broke, and the job seems to be well
constexpr auto kBusyTime = 1s;         // after the job was too busy to continue an answer
constexpr std::size_t kMaxDeaths = 2;  // jobs that die before a request is tried alone

}  // namespace

std::optional<ApiError> Dispatcher::refusal() const {
  if (supervisor_.is_ready() || waiting() < options_.max_queue) return std::nullopt;
  return ApiError{.status = 429,
                  .message = fmt::format("{} requests wait for the model, as many as may wait (--max-queue); "
                                         "try again later",
                                         options_.max_queue),
                  .code = "overloaded",
                  .retry_after = supervisor_.retry_after()};
}

void Dispatcher::add(std::shared_ptr<KeptRequest> request, const std::function<std::string()>& append) {
  const Number number = next_++;
  if (append) request->appended = append();
  request->on_failed = [this, &it = *request](const ApiError& error) {
    if (options_.on_failed) options_.on_failed(it, error);
  };
  request->waits_for_start = !supervisor_.is_ready() && !request->is_light();
  requests_[number] = request;
  bytes_ += request->bytes();
  request->exchange().on_abandoned([this, number] {
    remove(number);
    dispatch();
  });
  dispatch();
  note_change(*request);
}

void Dispatcher::note_change(const KeptRequest& request) {
  if (!request.is_light()) last_used_ = Clock::now();
  if (options_.on_change) options_.on_change();
}

bool Dispatcher::has_work() const {
  return std::ranges::any_of(requests_, [](const auto& entry) { return !entry.second->is_light(); });
}

std::optional<Dispatcher::Clock::time_point> Dispatcher::waits_since() const {
  std::optional<Clock::time_point> since;
  for (const auto& [number, request] : requests_) {
    if (!request->call && !request->is_light())
      since = since ? std::min(*since, request->waits_since) : request->waits_since;
  }
  return since;
}

std::size_t Dispatcher::waiting() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(requests_, [](const auto& entry) { return entry.second->call == nullptr; }));
}

void Dispatcher::keep_alive() {
  const Clock::time_point now = Clock::now();
  for (const auto& [number, request] : requests_) {
    if (request->call || now - std::max(request->waits_since, request->last_comment) < options_.ping_time)
      continue;
    request->last_comment = now;
    request->keep_alive();
  }
}

void Dispatcher::dispatch() {
  if (!supervisor_.is_ready()) return;
  const std::map<Number, Request> all = requests_;
  for (const auto& [number, request] : all) {
    if (!request->call && request->is_light()) send(number, request);
  }
  if (alone_ != 0) return;
  const auto is_suspect = [](const auto& entry) { return entry.second->deaths >= kMaxDeaths; };
  if (const auto suspect = std::ranges::find_if(requests_, is_suspect); suspect != requests_.end()) {
    if (in_flight() > 0) return;
    alone_ = suspect->first;
    send(suspect->first, suspect->second);
    if (alone_ != 0) return;
  }
  for (const auto& [number, request] : all) {
    if (!request->call && requests_.contains(number)) send(number, request);
  }
}

std::size_t Dispatcher::in_flight() const {
  return static_cast<std::size_t>(std::ranges::count_if(requests_, [](const auto& entry) {
    return entry.second->call != nullptr && !entry.second->is_light();
  }));
}

// An answer that has begun cannot be continued with another model.
bool Dispatcher::is_refused(Number number, const Request& request) {
  if (request->tokens() == 0) request->model = supervisor_.model();
  if (request->model == supervisor_.model()) return false;
  request->fail({.status = 503,
                 .message = "the answer cannot be continued: the model has been replaced",
                 .code = "model_replaced"});
  remove(number);
  return true;
}

void Dispatcher::send(Number number, const Request& request) {
  if (is_refused(number, request)) return;
  if (std::exchange(request->waits_for_start, false)) {
    const std::string& user = request->exchange().request().user;
    options_.log(fmt::format("a request{}{} waited {:.1f} s for a job", user.empty() ? "" : " of ", user,
                             std::chrono::duration<double>(Clock::now() - request->came).count()));
  }
  if (request->tokens() > 0) {
    ++resumed_;
    if (!supervisor_.is_exact()) request->note_inexact();
  }
  request->tokens_before = request->tokens();
  // A call that was cancelled sends no events, so `request` is the same as requests_[number].
  request->call =
      http_.call(request->call_request(supervisor_.server(), supervisor_.secret()),
                 {.on_head =
                      [this, number, request](int status, const HttpHeaders& headers) {
                        handle(number, request->on_head(status, headers));
                      },
                  .on_piece =
                      [this, number, request](std::string_view piece) {
                        const std::size_t before = request->bytes();
                        const Progress progress = request->on_piece(piece);
                        bytes_ += request->bytes() - before;
                        handle(number, progress);
                      },
                  .on_end = [this, number,
                             request](const std::string& error) { handle(number, request->on_end(error)); }});
}

void Dispatcher::handle(Number number, Progress progress) {
  switch (progress) {
    case Progress::none:
      return;
    case Progress::lost:
      wait_again(number, supervisor_.state() != JobState::draining);
      supervisor_.check_health();
      return http_.post_after(kBreakTime, [this] { dispatch(); });
    case Progress::later:
      wait_again(number, false);
      return http_.post_after(kBusyTime, [this] { dispatch(); });
    case Progress::answer: {
      const bool is_light = requests_.at(number)->is_light();
      remove(number);
      if (is_light) return dispatch();  // says nothing about the job's work
      break;
    }
    case Progress::token:
      requests_.at(number)->deaths = 0;
      supervisor_.note_progress();
      if (alone_ != number) return;  // no other request waits for this one
      alone_ = 0;
      break;
  }
  supervisor_.note_progress();
  dispatch();
}

// `is_failure`: the job, or the connection to it, was lost. Ends the request if it seems to be the reason.
void Dispatcher::wait_again(Number number, bool is_failure) {
  const Request request = requests_.at(number);
  request->call->cancel();
  request->forget_response();
  request->waits_since = Clock::now();
  if (alone_ == number) alone_ = 0;
  if (!is_failure) return;
  request->deaths = request->tokens() > request->tokens_before ? 0 : request->deaths + 1;
  if (request->deaths <= kMaxDeaths) return;
  request->fail({.status = 500,
                 .message = "the server ended three times in a row while it worked on this request",
                 .code = "job_lost"});
  remove(number);
}

void Dispatcher::on_lost(bool is_failure) {
  const std::map<Number, Request> all = requests_;
  for (const auto& [number, request] : all) {
    if (request->call) wait_again(number, is_failure);
  }
}

void Dispatcher::fail_all(const ApiError& error) {
  fail_if([](const KeptRequest&) { return true; }, error);
}

void Dispatcher::fail_readers(const ApiError& error) {
  fail_if([](const KeptRequest& request) { return request.is_light(); }, error);
}

void Dispatcher::fail_if(const std::function<bool(const KeptRequest&)>& fails, const ApiError& error) {
  const std::map<Number, Request> all = requests_;
  for (const auto& [number, request] : all) {
    if (!fails(*request)) continue;
    request->fail(error);
    remove(number);
  }
}

void Dispatcher::remove(Number number) {
  const auto found = requests_.find(number);
  if (found == requests_.end()) return;
  if (found->second->call) found->second->call->cancel();
  bytes_ -= found->second->bytes();
  const Request request = found->second;
  requests_.erase(found);
  if (alone_ == number) alone_ = 0;
  note_change(*request);
}

}  // namespace tp
