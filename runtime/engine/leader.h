// Rank 0's half of an engine: which requests there are, what the next step computes, and what its results
// mean. It knows neither MPI nor tensors; whoever runs the steps (Worker, or a test) brings plan() and
// settle() together:
//
//   while (leader.has_work()) {
//     PlannedStep step = leader.plan();
//     if (!step.forward.tokens.empty()) leader.settle(step, run(step.forward));
//   }
#pragma once

#include "model/tokenizer/tokenizer.h"
#include "runtime/engine/block_manager.h"
#include "runtime/engine/outputs.h"
#include "runtime/engine/scheduler.h"
#include "runtime/engine/sequence.h"
#include "tp/event.h"
#include "tp/leader_status.h"
#include "tp/request.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tp {

// What the leader has to know of model and cache.
struct LeaderOptions {
  std::string model;  // for error texts
  std::size_t vocab_size = 0;
  std::size_t max_length = 0;  // tokens of a sequence
  std::vector<TokenId> eos_token_ids;
  std::size_t cache_blocks = 0;
  CacheShape cache;
  SchedulerLimits limits;
};

class Leader {
 public:
  // `tokenizer` may be null; else it must outlive this.
  Leader(LeaderOptions options, const Tokenizer* tokenizer);

  // From any thread. Queues a request; its events go to the sink. Throws RequestError for one that cannot be
  // served.
  RequestId submit(Request request, EventSink sink);
  // From any thread. The request ends with RequestCancelled, unless it has ended by itself before.
  void cancel(RequestId request);
  // From any thread. As of the last call of plan() or settle().
  LeaderStatus status() const;

  // The rest is for one thread.

  // Whether something was submitted, or cancelled, that has not ended.
  bool has_work() const;

  // The next step; one without tokens if there is nothing to compute, or if everything awaits a step in
  // flight.
  PlannedStep plan();

  // Takes the results of a step: steps in the order in which they were planned. Several may be in flight.
  void settle(const PlannedStep& step, const Outputs& outputs);

  // Throws std::logic_error naming the first invariant that does not hold.
  void check_invariants() const;

 private:
  // Events on their way out: sinks are called when everything else is done.
  using Delivery = std::vector<std::pair<std::shared_ptr<RequestState>, Event>>;

  RequestId enqueue(Request request, EventSink sink);
  void drain_inbox(Delivery& delivery);
  static void start_masks(PlannedStep& planned);
  static void check_mask(Sequence& sequence, const std::shared_future<TokenMask>& mask, Delivery& delivery);
  void settle_result(Sequence& sequence, const Result& result, Delivery& delivery);
  void end_sequences(Delivery& delivery);
  static void end(const std::shared_ptr<RequestState>& state, Delivery& delivery);
  static void deliver(const Delivery& delivery);
  void publish_status();

  LeaderOptions options_;
  const Tokenizer* tokenizer_;
  BlockManager blocks_;
  Scheduler scheduler_;
  std::size_t last_step_tokens_ = 0;

  mutable std::mutex mutex_;  // for the rest
  std::vector<std::shared_ptr<RequestState>> submitted_;
  std::vector<RequestId> cancelled_;
  RequestId next_request_ = 1;
  LeaderStatus status_;
};

}  // namespace tp
