// Decides what the next step computes. Rank 0 only; no communication and no tensors.
#pragma once

#include "runtime/engine/block_manager.h"
#include "runtime/engine/command.h"
#include "runtime/engine/sequence.h"

#include <cstddef>
#include <cstdint>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <vector>

namespace tp {

struct SchedulerLimits {
  std::size_t prefill_chunk = 512;  // tokens of one prompt in a step at most
  std::size_t step_tokens = 512;    // tokens of a step at most
  std::size_t max_sequences = 16;   // that are worked on at once
};

// A step, and what it means for which sequence. Several may be in flight.
struct PlannedStep {
  struct Chunk {
    std::shared_ptr<Sequence> sequence;
    std::size_t tokens = 0;
    std::size_t first_output = 0;  // of the pass's outputs, those of this chunk
    std::size_t outputs = 0;
  };

  // The mask that an output waits for, once whoever makes it has done so. Does not throw: an empty one allows
  // no token.
  TokenMask mask(std::size_t output) const noexcept;

  Forward forward;
  std::vector<Chunk> chunks;                                   // as those of the pass
  std::map<std::size_t, std::shared_future<TokenMask>> masks;  // by output
  // Sequences that were to begin, but there was no memory for their tokens: they have left the queue.
  std::vector<std::shared_ptr<Sequence>> failed;
};

// Continuous batching: every step takes the next token of each running sequence, and fills what is left of
// its tokens with chunks of prompts, first come, first served. When the cache is full, the sequence that came
// last gives back its blocks and starts again later with what it has generated; its text does not change.
//
// A waiting sequence for which the cache has no room is overtaken by others at most kMaxOvertaken times. One
// that begins as a running sequence does waits until that has computed what both have in common.
//
// Steps may be planned while others are in flight: what these compute counts as planned, a sequence that
// awaits a token is left out, and nothing in flight is preempted. Steps are settled in the order in which
// they were planned.
class Scheduler {
 public:
  static constexpr std::size_t kMaxOvertaken = 64;
  // Waiting sequences that a step looks at, without being able to admit them.
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

  // The next step. If there is work and nothing is in flight, it computes at least one token, or a sequence
  // has failed.
  PlannedStep plan();

  // A step has been run, and tokens that it gave are appended to its sequences: its chunks are in the cache,
  // and can be found by other sequences unless their own one has failed or was cancelled.
  void settle(const PlannedStep& step);

  // Gives back the blocks of sequences that have ended, and returns these. Those in flight end later.
  std::vector<std::shared_ptr<Sequence>> remove_finished();

  // Every sequence of a request that has not ended ends with FinishReason::cancelled; samples that have not
  // begun never do.
  void cancel(RequestId request);

  // Throws std::logic_error naming the first invariant that does not hold.
  void check_invariants() const;

 private:
  using Sequences = std::list<std::shared_ptr<Sequence>>;

  enum class Admission : std::uint8_t {
    admitted,
    waits,    // for a beginning that another sequence is computing
    no_room,  // in the cache
    failed,   // for want of memory
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
  bool waits_for_beginning(Sequence& sequence);
  void preempt(const std::shared_ptr<Sequence>& sequence);

  BlockManager& blocks_;
  SchedulerLimits limits_;
  // Of a request's samples that have not begun, only the first is in the queue.
  Sequences waiting_;
  Sequences running_;              // in the order of admission
  std::vector<SequenceId> ended_;  // not yet told to the ranks
  SequenceId next_id_ = 1;
  std::uint64_t admissions_ = 0;
  std::size_t steps_in_flight_ = 0;
  std::size_t queued_ = 0;
  std::uint64_t prefix_queries_ = 0;
  std::uint64_t prefix_hits_ = 0;
  std::uint64_t preemptions_ = 0;
};

}  // namespace tp
