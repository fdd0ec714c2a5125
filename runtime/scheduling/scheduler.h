// Decides what the next step computes. Rank 0 only; no communication and no tensors.
#pragma once

#include "parallel/shard/shard.h"
#include "runtime/cache/block_manager.h"
#include "runtime/protocol/command.h"
#include "runtime/protocol/step_times.h"
#include "runtime/scheduling/sequence.h"
#include "runtime/scheduling/waiting_queue.h"
#include "runtime/speculation/speculator.h"
#include "tp/leader_status.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tp {

struct SchedulerLimits {
  std::size_t prefill_chunk = 512;  // maximum tokens of one prompt per step
  std::size_t step_tokens = 512;    // maximum tokens per step
  std::size_t max_sequences = 16;   // maximum running sequences
  double step_ms = 0.0;             // see EngineOptions
  std::size_t stages = 1;           // steps that should have something to compute at the same time
  bool generates = true;            // sequences may generate token by token

  // Maximum tokens of an indivisible sequence: a step has room for it however many others generate.
  std::size_t indivisible_tokens() const {
    if (!generates) return prefill_chunk;
    const std::size_t others = std::min(max_sequences, step_tokens) - 1;
    return std::min(prefill_chunk, step_tokens - others);
  }
};

// A step, and the sequences that its chunks and outputs belong to. Several steps may be in flight.
struct PlannedStep {
  struct Chunk {
    std::shared_ptr<Sequence> sequence;
    std::size_t tokens = 0;         // its own; in the forward pass `drafts` follow
    std::size_t end = 0;            // the position behind these tokens
    std::vector<TokenId> drafts{};  // if there are any, each of the chunk's outputs chooses a token
    std::size_t first_output = 0;   // index of this chunk's first one in forward.outputs
    std::size_t outputs = 0;
  };

  // Waits for an output's mask. Does not throw: if it could not be computed, returns an empty one, which
  // allows no token.
  TokenMask mask(std::size_t output) const noexcept;

  Forward forward;
  std::vector<Chunk> chunks;                                   // parallel to forward.chunks
  std::map<std::size_t, std::shared_future<TokenMask>> masks;  // by output
  std::shared_future<void> mask_work;                          // the thread that computes most of them
  std::size_t prompt_tokens = 0;                               // prompt tokens of all chunks, except
  std::size_t decoding = 0;                                    // this many that only generate
  // Sequences that could not begin for lack of memory; they have left the queue.
  std::vector<std::shared_ptr<Sequence>> failed;
};

// Continuous batching: every step computes the next token of each decoding sequence, and divides the rest of
// its token budget among prompts. These take turns of a few tokens, whoever has waited longest first, so that
// a short prompt is not held up by a long one; the queue takes turns, too, in which a prompt begins. Of
// prompts with different priorities, the more urgent ones have as many turns as they can use. With
// SchedulerLimits::step_ms the budget is also limited by what past steps took, while anybody generates.
//
// When the cache is full, the sequence admitted last of those with the lowest priority is preempted: its
// blocks are released, and it is recomputed later, generated tokens included; its text does not change. A
// prompt begins only if the cache has room for all of it and for the rest of those that have begun, so that
// prompts do not displace each other.
//
// A waiting sequence for which the cache has no room is overtaken by others behind it at most kMaxOvertaken
// times. One that shares a prefix with a running sequence, which is no less urgent, waits until
// that has computed the common blocks.
//
// An indivisible sequence is admitted to a step with room for all of its tokens, whatever step_ms is; until
// there is one, it waits as others do for room in the cache. So does one with an input to encode, unless the
// cache has that; its decoder's tokens follow in later steps.
//
// With a Speculator, a sequence that generates may have draft tokens behind its own: as far as the step and
// the cache have room for them when everything else is planned. Nothing is preempted for drafts. What is
// computed of them counts when they have been accepted; the cache's positions of others are written again. A
// recurrent layer's state cannot be cut: drafts are computed on a copy of it, and if not all of them are
// accepted, the sequence computes those that were again, from its old state, in its next step, which has no
// drafts.
//
// A pass that shares a PassCache with others leaves its blocks for the next one, which comes before all
// others and takes them over. Meanwhile nothing displaces them: keys and values that were computed before
// other tokens of the text have changed could not be computed again. Blocks wait only where every prompt is
// indivisible, so that whoever has begun needs no more.
//
// A sequence that is recomputed for every token waits, before all others, each time that it has got one.
//
// Steps may be planned while others are in flight: what those compute counts as planned, sequences that await
// a token are skipped, and sequences in flight are not preempted. Steps are settled in the order in which
// they were planned.
class Scheduler {
 public:
  static constexpr std::size_t kMaxOvertaken = 64;
  // Waiting sequences that a step considers without being able to admit them.
  static constexpr std::size_t kMaxLookedAt = 64;

  // `blocks` must outlive it. Without a speculator there are no drafts.
  Scheduler(BlockManager& blocks, SchedulerLimits limits, std::unique_ptr<Speculator> speculator = nullptr)
      : blocks_(blocks), limits_(limits), speculator_(std::move(speculator)) {}

  // Queues a request's samples. Each one's prompt and continuation must fit in the cache.
  void add(const std::shared_ptr<RequestState>& state) { waiting_.add(state); }
  // Counts a request as one that does not wait: it could not be added.
  void drop(RequestState& state) {
    waiting_.leave(state);
    release(state.pass_cache.key);
  }

  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  // The requests that do not wait any more.
  const RequestCounts& left_queue() const { return waiting_.left(); }
  const StepTimes& times() const { return times_; }
  // Writes what it knows to `status`.
  void describe(LeaderStatus& status) const;

  // Plans the next step. If there is work and nothing is in flight, it computes at least one token, or a
  // sequence has failed.
  PlannedStep plan();

  // To be called when a step has been run, in `seconds` (0: unknown), its tokens have been appended to their
  // sequences, and Sequence::accepted says how many drafts are among them. Publishes the computed blocks of
  // its sequences, except those that failed or were cancelled.
  void settle(const PlannedStep& step, double seconds = 0.0);

  // Removes and returns the sequences that have ended, and releases their blocks, but for those that wait for
  // another pass (RequestState::pass_cache). Those in flight are removed later.
  std::vector<std::shared_ptr<Sequence>> remove_finished();

  // Releases the blocks that wait for a pass with this key, if there are any. To be called when no more will
  // come.
  void release(RequestId key);

  // Ends the request's sequences that have not ended with FinishReason::cancelled; its other samples never
  // begin; returns the number of these.
  std::size_t cancel(RequestId request);

  // Throws std::logic_error naming the first invariant that does not hold.
  void check_invariants() const;

 private:
  using Sequences = std::vector<std::shared_ptr<Sequence>>;

  // The step that is being planned.
  struct Step {
    Sequences sequences;  // with tokens in it
    std::size_t tokens = 0;
    bool preempts = false;
    Sequences failed;
  };
  // How far a step has looked through the queue.
  struct QueueTurn {
    WaitingQueue::Place next;
    bool closed = false;  // no more can begin in this step
    std::size_t looked_at = 0;
    Sequences without_room;
  };
  enum class Admission : std::uint8_t {
    admitted,
    waits,    // for a prefix that another sequence is computing
    no_room,  // in the cache or the step
    failed,   // for lack of memory
  };

  void add_decoding(Step& step);
  std::size_t decoding_limit() const;
  void add_prompts(Step& step);
  std::size_t prompt_budget(const Step& step) const;
  std::size_t grantable(const Sequence& sequence) const;
  bool try_grant(const std::shared_ptr<Sequence>& sequence, std::size_t tokens, Step& step);
  bool try_reserve(const Sequence& sequence, std::size_t total_tokens, Step& step);
  void preempt(const std::shared_ptr<Sequence>& sequence, Step& step);
  void take_back(const std::shared_ptr<Sequence>& sequence);

  void add_drafts(Step& step);
  std::size_t draft_room(const Sequence& sequence, const Step& step) const;
  void advance(const PlannedStep::Chunk& chunk);
  void count_drafts(const PlannedStep& step, double seconds);
  void forget(const Sequences& removed);

  bool is_open(const QueueTurn& queue, const Step& step);
  std::shared_ptr<Sequence> admit_next(QueueTurn& queue, std::size_t tokens, Step& step);
  Admission try_admit(const std::shared_ptr<Sequence>& sequence, std::size_t tokens, Step& step);
  void begin(Sequence& sequence);
  void leave_blocks(const Sequence& sequence);
  bool has_room_for_prompt(const Sequence& sequence) const;
  bool waits_for_prefix(Sequence& sequence);
  bool will_keep_state(Sequence& running, std::size_t position) const;

  void add_chunk(const std::shared_ptr<Sequence>& sequence, PlannedStep& planned);
  std::vector<BlockId> take_unsent_blocks(Sequence& sequence) const;
  ChunkState take_states(Sequence& sequence, Range computed);
  ChunkState take_trial_state(const Sequence& sequence);

  BlockManager& blocks_;
  SchedulerLimits limits_;
  std::unique_ptr<Speculator> speculator_;
  StepTimes times_;
  WaitingQueue waiting_;
  std::list<std::shared_ptr<Sequence>> running_;  // in the order of admission
  std::vector<SequenceId> ended_;                 // not yet sent to the ranks
  std::map<RequestId, SequenceId> kept_;          // whose blocks wait for a pass, by PassCache::key
  std::uint64_t admissions_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t queue_turn_ = 0;  // the queue's last one
  std::size_t steps_in_flight_ = 0;
  std::uint64_t computed_prompt_tokens_ = 0;
  std::uint64_t prefix_queries_ = 0;
  std::uint64_t prefix_hits_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t snapshot_hits_ = 0;
};

}  // namespace tp
