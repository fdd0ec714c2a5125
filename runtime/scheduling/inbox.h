// Other threads leave requests here for the leader's thread, and see how busy it is.
#pragma once

#include "runtime/scheduling/sequence.h"
#include "runtime/scheduling/waiting_queue.h"
#include "tp/event.h"
#include "tp/leader_status.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tp {

// How many requests, and tokens of their prompts, may wait; 0: any number. See EngineOptions.
struct QueueLimits {
  std::size_t requests = 0;
  std::size_t prompt_tokens = 0;
};

// All members are thread-safe.
class Inbox {
 public:
  struct Contents {
    std::vector<std::shared_ptr<RequestState>> submitted;
    std::vector<RequestId> cancelled;
  };

  // Requests that find one of the `sequences`, which may run at the same time, free do not wait.
  Inbox(QueueLimits limits, std::size_t sequences) : limits_(limits), sequences_(sequences) {}

  // Gives the request its number, and returns it. Throws OverloadedError if as many wait as may.
  RequestId submit(const std::shared_ptr<RequestState>& state);
  // Submits a further pass of a request that was admitted before: it may always wait.
  RequestId submit_again(const std::shared_ptr<RequestState>& state);
  // A number that no request will have.
  RequestId reserve_id();
  void cancel(RequestId request);
  // Ends the wait that is under way, or else the next one.
  void wake();
  // As last published, plus what was submitted since.
  LeaderStatus status() const;

  // The following are for the leader's thread.

  bool empty() const;
  // Waits until it is not empty, wake() is called, or the time is over.
  void wait(std::chrono::nanoseconds timeout);
  // Takes everything out of it.
  Contents take();
  // Publishes a status that covers all that was taken. `left_queue`: the requests that do not wait any more.
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

  QueueLimits limits_;
  std::size_t sequences_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  Contents contents_;
  RequestId next_request_ = 1;
  bool woken_ = false;
  LeaderStatus status_;
  RequestCounts submitted_;                       // since it was created, but for submit_again
  RequestCounts left_;                            // requests that no longer wait
  std::size_t unpublished_ = 0;                   // continuations that status_ does not cover
  std::vector<std::size_t> unpublished_prompts_;  // tokens of submitted requests that left_ does not cover
};

}  // namespace tp
