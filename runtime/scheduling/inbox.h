// Passes requests from other threads to the leader's thread, and reports the leader's load to other threads.
#pragma once

#include "runtime/scheduling/sequence.h"
#include "runtime/scheduling/waiting_queue.h"
#include "tp/engine_options.h"
#include "tp/event.h"
#include "tp/leader_status.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tp {

// All members are thread-safe.
class Inbox {
 public:
  struct Contents {
    std::vector<std::shared_ptr<RequestState>> submitted;
    std::vector<RequestId> cancelled;
  };

  // `options` must outlive the inbox. They limit the queue.
  explicit Inbox(const EngineOptions& options) : options_(options) {}

  // Queues the request and returns its new number. Throws OverloadedError if the queue is full.
  RequestId submit(const std::shared_ptr<RequestState>& state);
  // Queues another pass of a request that was already admitted, regardless of queue limits.
  RequestId submit_again(const std::shared_ptr<RequestState>& state);
  // Returns an unused request number.
  RequestId reserve_id();
  void cancel(RequestId request);
  // Ends the current wait(), or the next wait() if no thread is waiting.
  void wake();
  // The last published status, plus requests submitted since then.
  LeaderStatus status() const;

  // Only the leader's thread may call the following members.

  bool empty() const;
  // Waits until the inbox is not empty, wake() is called, or the timeout expires.
  void wait(std::chrono::nanoseconds timeout);
  // Removes and returns all contents.
  Contents take();
  // Publishes a status that covers everything taken so far. `left_queue`: all requests so far that are no
  // longer waiting.
  void publish(const LeaderStatus& status, const RequestCounts& left_queue);

 private:
  // The caller must hold the mutex.
  bool is_empty() const { return contents_.submitted.empty() && contents_.cancelled.empty(); }
  LeaderStatus current_status() const;
  std::size_t free_sequences() const;
  std::size_t waiting_prompt_tokens() const;
  void require_room(std::size_t prompt_tokens) const;
  void add(const std::shared_ptr<RequestState>& state);
  void enqueue(const std::shared_ptr<RequestState>& state);

  const EngineOptions& options_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  Contents contents_;
  RequestId next_request_ = 1;
  bool woken_ = false;
  LeaderStatus status_;
  RequestCounts submitted_;                       // all requests so far, not counting submit_again
  RequestCounts left_;                            // submitted requests that are no longer waiting
  std::size_t unpublished_ = 0;                   // continuations not yet in status_
  std::vector<std::size_t> unpublished_prompts_;  // prompt lengths of requests not yet in status_
};

}  // namespace tp
