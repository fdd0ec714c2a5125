#include "runtime/scheduling/inbox.h"

#include "tp/error.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

// Predicted seconds until all waiting requests are done. The prediction tends to be too high, because the
// time spent in steps that both compute prompts and generate tokens is counted twice.
double seconds_of_queue(const LeaderStatus& status) {
  const auto seconds = [](double tokens, double rate) { return rate > 0.0 ? tokens / rate : 0.0; };
  const auto continuations = static_cast<double>(status.finished.total() + status.running);
  const double length =
      continuations > 0.0 ? static_cast<double>(status.generated_tokens) / continuations : 0.0;
  const auto prompts = static_cast<double>(status.queued_prompt_tokens);
  const double generated = static_cast<double>(status.queued) * length;
  return seconds(prompts, status.prefill_tokens_per_second) +
         seconds(generated, status.decode_tokens_per_second);
}

}  // namespace

RequestId Inbox::submit(const std::shared_ptr<RequestState>& state) {
  {
    const std::lock_guard lock(mutex_);
    require_room(state->request.prompt.size());
    add(state);
  }
  changed_.notify_one();
  return state->id;
}

RequestId Inbox::submit_again(const std::shared_ptr<RequestState>& state) {
  {
    const std::lock_guard lock(mutex_);
    state->has_left_queue = true;  // already admitted, so it takes up no room in the queue
    enqueue(state);
  }
  changed_.notify_one();
  return state->id;
}

RequestId Inbox::reserve_id() {
  const std::lock_guard lock(mutex_);
  return next_request_++;
}

void Inbox::add(const std::shared_ptr<RequestState>& state) {
  enqueue(state);
  ++submitted_.requests;
  submitted_.prompt_tokens += state->request.prompt.size();
  unpublished_prompts_.push_back(state->request.prompt.size());
}

void Inbox::enqueue(const std::shared_ptr<RequestState>& state) {
  contents_.submitted.push_back(state);
  state->id = next_request_++;
  unpublished_ += static_cast<std::size_t>(state->request.n);
}

void Inbox::require_room(std::size_t prompt_tokens) const {
  const auto refuse = [&](std::size_t waiting, std::string_view what, std::string_view option,
                          std::size_t limit) {
    const double seconds = current_status().retry_after_seconds;
    throw OverloadedError(
        fmt::format(
            "cannot queue the request: {} {} wait already, of at most {}; try again in about {:.0f} s, or "
            "raise `{}`",
            waiting, what, limit, seconds, option),
        seconds);
  };
  const std::size_t submitted = submitted_.requests - left_.requests;
  if (submitted < free_sequences()) return;
  const std::size_t waiting = submitted - free_sequences();
  const std::size_t tokens = waiting_prompt_tokens();
  if (options_.max_queue != 0 && waiting >= options_.max_queue)
    refuse(waiting, "requests", "max_queue", options_.max_queue);
  if (options_.max_queue_tokens != 0 && waiting > 0 && tokens + prompt_tokens > options_.max_queue_tokens)
    refuse(tokens, "prompt tokens", "max_queue_tokens", options_.max_queue_tokens);
}

// How many more sequences could run when the last status was published. `left_` was set at the same time.
std::size_t Inbox::free_sequences() const {
  return options_.max_sequences - std::min(options_.max_sequences, status_.running);
}

// Excludes prompts that can start in the next step. Requests that the leader has seen but not started go
// before newer requests.
std::size_t Inbox::waiting_prompt_tokens() const {
  const std::size_t tokens = submitted_.prompt_tokens - left_.prompt_tokens;
  const std::size_t left_waiting = submitted_.requests - left_.requests - unpublished_prompts_.size();
  const std::size_t free = free_sequences() - std::min(free_sequences(), left_waiting);
  const auto beginning = std::span(unpublished_prompts_).first(std::min(free, unpublished_prompts_.size()));
  return tokens - std::accumulate(beginning.begin(), beginning.end(), std::size_t{0});
}

void Inbox::cancel(RequestId request) {
  {
    const std::lock_guard lock(mutex_);
    contents_.cancelled.push_back(request);
  }
  changed_.notify_one();
}

void Inbox::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

LeaderStatus Inbox::status() const {
  const std::lock_guard lock(mutex_);
  return current_status();
}

LeaderStatus Inbox::current_status() const {
  LeaderStatus status = status_;
  status.queued += unpublished_;
  status.queued_requests = submitted_.requests - left_.requests;
  status.queued_prompt_tokens = submitted_.prompt_tokens - left_.prompt_tokens;
  status.prompt_tokens = submitted_.prompt_tokens;
  if (options_.max_queue != 0) {
    const std::size_t room = options_.max_queue + free_sequences();
    status.queue_room = room - std::min(room, status.queued_requests);
    status.max_queued = options_.max_queue + options_.max_sequences;
  }
  status.retry_after_seconds = std::clamp(seconds_of_queue(status), 1.0, 600.0);
  return status;
}

bool Inbox::empty() const {
  const std::lock_guard lock(mutex_);
  return is_empty();
}

void Inbox::wait(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return woken_ || !is_empty(); });
  woken_ = false;
}

Inbox::Contents Inbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(contents_, {});
}

void Inbox::publish(const LeaderStatus& status, const RequestCounts& left_queue) {
  const std::lock_guard lock(mutex_);
  status_ = status;
  left_ = left_queue;
  unpublished_ = 0;
  unpublished_prompts_.clear();
  for (const auto& state : contents_.submitted) {
    unpublished_ += static_cast<std::size_t>(state->request.n);
    if (!state->has_left_queue) unpublished_prompts_.push_back(state->request.prompt.size());
  }
}

}  // namespace tp
