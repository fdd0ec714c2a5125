// Decides what the next step computes. Rank 0 only; no communication and no tensors.
#pragma once

#include "runtime/engine/block_manager.h"
#include "runtime/engine/command.h"
#include "runtime/engine/sequence.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <vector>

namespace tp {

struct SchedulerLimits {
  std::size_t prefill_chunk = 512;  // maximum tokens of one prompt per step
  std::size_t step_tokens = 512;    // maximum tokens per step
  std::size_t max_sequences = 16;   // maximum running sequences

  // Maximum tokens of an indivisible sequence: a step has room for it however many others generate.
  std::size_t indivisible_tokens() const {
    const std::size_t others = std::min(max_sequences, step_tokens) - 1;
    return std::min(prefill_chunk, step_tokens - others);
  }
};

// A step, and the sequences that its chunks and outputs belong to. Several steps may be in flight.
struct PlannedStep {
  struct Chunk {
    std::shared_ptr<Sequence> sequence;
    std::size_t tokens = 0;
    std::size_t first_output = 0;  // index of this chunk's first one in forward.outputs
    std::size_t outputs = 0;
  };

  // Waits for an output's mask. Does not throw: if it could not be computed, returns an empty one, which
  // allows no token.
  TokenMask mask(std::size_t output) const noexcept;

  Forward forward;
  std::vector<Chunk> chunks;                                   // parallel to forward.chunks
  std::map<std::size_t, std::shared_future<TokenMask>> masks;  // by output
  // Sequences that could not begin for lack of memory; they have left the queue.
  std::vector<std::shared_ptr<Sequence>> failed;
};

// Continuous batching: every step computes the next token of each decoding sequence, and fills the rest of
// its token budget with chunks of prompts, first come, first served. When the cache is full, the sequence
// admitted last is preempted: its blocks are released, and it is recomputed later, generated tokens included;
// its text does not change.
//
// A waiting sequence for which the cache has no room is overtaken by others at most kMaxOvertaken times. One
// that shares a prefix with a running sequence waits until that has computed the common blocks.
//
// An indivisible sequence is admitted to a step with room for all of its tokens; until there is one, it waits
// as others do for room in the cache.
//
// Steps may be planned while others are in flight: what those compute counts as planned, sequences that await
// a token are skipped, and sequences in flight are not preempted. Steps are settled in the order in which
// they were planned.
class Scheduler {
 public:
  static constexpr std::size_t kMaxOvertaken = 64;
  // Waiting sequences that a step considers without being able to admit them.
  static constexpr std::size_t kMaxLookedAt = 64;

  // `blocks` must outlive it.
  Scheduler(BlockManager& blocks, SchedulerLimits limits) : blocks_(blocks), limits_(limits) {}

  // Queues a request's samples. Each one's prompt and continuation must fit in the cache.
  void add(const std::shared_ptr<RequestState>& state);

  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  std::size_t queued() const { return queued_; }
  std::size_t running() const { return running_.size(); }
  std::uint64_t prefix_queries() const { return prefix_queries_; }
  std::uint64_t prefix_hits() const { return prefix_hits_; }
  std::uint64_t preemptions() const { return preemptions_; }

  // Plans the next step. If there is work and nothing is in flight, it computes at least one token, or a
  // sequence has failed.
  PlannedStep plan();

  // To be called when a step has been run and its tokens have been appended to their sequences. Publishes the
  // computed blocks of its sequences, except those that failed or were cancelled.
  void settle(const PlannedStep& step);

  // Removes and returns the sequences that have ended, and releases their blocks. Those in flight are removed
  // later.
  std::vector<std::shared_ptr<Sequence>> remove_finished();

  // Ends the request's sequences that have not ended with FinishReason::cancelled; its other samples never
  // begin.
  void cancel(RequestId request);

  // Throws std::logic_error naming the first invariant that does not hold.
  void check_invariants() const;

 private:
  using Sequences = std::list<std::shared_ptr<Sequence>>;

  enum class Admission : std::uint8_t {
    admitted,
    waits,    // for a prefix that another sequence is computing
    no_room,  // in the cache or the step
    failed,   // for lack of memory
  };

  std::shared_ptr<Sequence> make_sample(const std::shared_ptr<RequestState>& state);
  bool try_plan_chunk(const std::shared_ptr<Sequence>& sequence, PlannedStep& planned);
  std::vector<BlockId> take_unsent_blocks(Sequence& sequence) const;
  void plan_running(PlannedStep& planned);
  void plan_waiting(PlannedStep& planned);
  bool has_room(const PlannedStep& planned) const;
  Sequences::iterator dequeue(Sequences::iterator place);
  Admission try_admit(const std::shared_ptr<Sequence>& sequence, PlannedStep& planned);
  void begin(Sequence& sequence);
  bool waits_for_prefix(Sequence& sequence);
  void preempt(const std::shared_ptr<Sequence>& sequence);

  BlockManager& blocks_;
  SchedulerLimits limits_;
  // Of a request's samples that have not begun, only the first is in the queue.
  Sequences waiting_;
  Sequences running_;              // in the order of admission
  std::vector<SequenceId> ended_;  // not yet sent to the ranks
  SequenceId next_id_ = 1;
  std::uint64_t admissions_ = 0;
  std::size_t steps_in_flight_ = 0;
  std::size_t queued_ = 0;
  std::uint64_t prefix_queries_ = 0;
  std::uint64_t prefix_hits_ = 0;
  std::uint64_t preemptions_ = 0;
};

}  // namespace tp
