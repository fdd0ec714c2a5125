// Admits requests, plans steps and processes their results. It uses neither MPI
// nor tensors. The caller runs each step on the workers or, in tests, on fake workers:
//
//   while (leader.has_work()) {
//     PlannedStep step = leader.plan();
//     if (!step.forward.tokens.empty()) leader.apply_results(step, run(step.forward), seconds);
//   }
#pragma once

#include "model/tokenizer/tokenizer.h"
#include "runtime/cache/block_manager.h"
#include "runtime/constraint/constraint_compiler.h"
#include "runtime/protocol/outputs.h"
#include "runtime/scheduling/inbox.h"
#include "runtime/scheduling/leader_options.h"
#include "runtime/scheduling/scheduler.h"
#include "runtime/scheduling/sequence.h"
#include "runtime/store/stored_prefixes.h"
#include "tp/event.h"
#include "tp/leader_status.h"
#include "tp/request.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tp {

class Leader {
 public:
  // `tokenizer` may be null; otherwise it must outlive the leader. Without a speculator, steps have no draft
  // tokens.
  Leader(LeaderOptions options, const Tokenizer* tokenizer, std::unique_ptr<Speculator> speculator = nullptr);

  // The members up to wake() are thread-safe.

  // Compiles the request's constraint, if any, and keeps the result for submit(). Throws RequestError.
  void compile_constraint(const Request& request);
  // Queues a request; `sink` receives its events. Throws RequestError if the request can never be served,
  // TooLongError if it is too long, and OverloadedError if the queue is full or there is currently no memory
  // for the request.
  RequestId submit(Request request, EventSink sink);
  // For requests that run as several passes: reserve_id() returns an unused number, for the request or for
  // its PassCache, and submit_pass() queues a pass. submit_pass() throws the same errors as submit(), but if
  // the queue is full, it refuses only a first pass.
  RequestId reserve_id() { return inbox_.reserve_id(); }
  RequestId submit_pass(Request request, EventSink sink, const Pass& pass);
  // Ends the request with RequestCancelled, unless it has already ended.
  void cancel(RequestId request);
  // Removes all stored prompts, soon. Returns false if there is no store.
  bool clear_store();
  // The load at the last call to plan(), apply_results() or release_passes(), plus requests submitted since
  // then.
  LeaderStatus status() const;
  // Ends wait_for_work(). If no thread is waiting, the next wait returns immediately.
  void wake();

  // All other members must be called from a single thread.

  // From now on, prefixes are also written to a store and read from it. Call it before the first plan().
  void open_store(StoreSettings settings);
  void add_stored(const RunHeader& header) { store_->add_stored(header); }
  // The store's next work for the ranks, if any, and their reports about it. apply_store_reports() returns
  // notes for the user.
  std::optional<StoreWork> take_store_work() { return store_ ? store_->take_work() : std::nullopt; }
  std::vector<std::string> apply_store_reports(std::span<const StoreReport> reports);
  bool is_store_busy() const { return store_ && store_->is_busy(); }

  // Releases the cache blocks kept for passes with this PassCache::key. Sinks may call this.
  void release_passes(RequestId key);

  // Whether any request is unfinished, or any cancellation has yet to be processed.
  bool has_work() const;
  // Waits until there is work, wake() is called, or the timeout expires. Returns has_work().
  bool wait_for_work(std::chrono::nanoseconds timeout);

  // Plans the next step. The step is empty if there is nothing to compute, or if every sequence is waiting
  // for a step in flight.
  PlannedStep plan();

  // Processes the results of a step that took `seconds` (0: unknown). If several steps are in flight, apply
  // them in the order in which they were planned.
  void apply_results(const PlannedStep& step, const Outputs& outputs, double seconds = 0.0);

  // Throws std::logic_error naming the first violated invariant.
  void check_invariants() const;

 private:
  // Events to deliver. Sinks are called last, once the leader's state is consistent.
  using Delivery = std::vector<std::pair<std::shared_ptr<RequestState>, Event>>;

  std::size_t complete_attention(Request& request, std::size_t block) const;
  std::shared_ptr<RequestState> make_state(Request request, EventSink sink, std::size_t attention_block);
  void add_endings(const GenerationDefaults& defaults, Request& request, RequestState& state) const;
  std::shared_ptr<const constraint::RequestConstraint> constraint_of(const RequestState& state);
  static void note_start_times(const PlannedStep& planned);
  void fail_sequences(const std::vector<std::shared_ptr<Sequence>>& failed, Delivery& delivery);
  static void finish_computed_prompts(const PlannedStep& step);
  void count_step(const PlannedStep& step, double seconds);
  void drain_inbox(Delivery& delivery);
  static void check_mask(Sequence& sequence, const StepMasks& masks, std::size_t output, Delivery& delivery);
  static void tell_prompt_progress(const PlannedStep::Chunk& chunk, Delivery& delivery);
  void apply_chunk(const PlannedStep& step, const PlannedStep::Chunk& chunk, const Outputs& outputs,
                   Delivery& delivery);
  void apply_result(Sequence& sequence, const Result& result, Delivery& delivery);
  void append(Sequence& sequence, const Chosen& chosen, Delivery& delivery);
  void append_forced(Sequence& sequence, Delivery& delivery);
  static void apply_rows(Sequence& sequence, const WholeRows& rows, Delivery& delivery);
  static void apply_proposals(Sequence& sequence, const std::vector<Proposal>& proposals, Delivery& delivery);
  static void apply_candidates(Sequence& sequence, const RowCandidates& row, Delivery& delivery);
  void end_finished_sequences(Delivery& delivery);
  static void end(const std::shared_ptr<RequestState>& state, Delivery& delivery);
  static void deliver(const Delivery& delivery);
  void publish_status();

  LeaderOptions options_;
  const Tokenizer* tokenizer_;
  std::optional<constraint::ConstraintCompiler> constraints_;  // set if there is a tokenizer
  BlockManager blocks_;
  std::optional<StoredPrefixes> store_;
  Scheduler scheduler_;
  LeaderStatus counters_;  // counters that the scheduler does not keep
  Inbox inbox_;
};

}  // namespace tp
