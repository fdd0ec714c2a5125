// Decides what the next step computes. Runs only on rank 0, and uses neither MPI nor tensors.
#pragma once

#include "parallel/shard/shard.h"
#include "runtime/cache/block_manager.h"
#include "runtime/cache/block_scores.h"
#include "runtime/protocol/command.h"
#include "runtime/protocol/step_times.h"
#include "runtime/scheduling/leader_options.h"
#include "runtime/scheduling/sequence.h"
#include "runtime/scheduling/waiting_queue.h"
#include "runtime/speculation/speculator.h"
#include "runtime/store/stored_prefixes.h"
#include "tp/leader_status.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace tp {

class StepMasks;

// A step to run, and the sequence that each of its chunks belongs to. Several steps may be in flight.
struct PlannedStep {
  struct Chunk {
    std::shared_ptr<Sequence> sequence;
    std::size_t tokens = 0;         // tokens of the sequence; `drafts` follow in the forward pass
    std::size_t end = 0;            // position after these tokens
    std::vector<TokenId> drafts{};  // draft tokens; if any, every output of the chunk chooses a token
    std::size_t first_output = 0;   // index of this chunk's first output in forward.outputs
    std::size_t outputs = 0;
  };

  Forward forward;
  std::vector<Chunk> chunks;               // parallel to forward.chunks
  std::shared_ptr<const StepMasks> masks;  // null: no output has a mask
  std::size_t prompt_tokens = 0;           // tokens in chunks that compute prompts
  std::size_t decoding = 0;                // number of chunks that only generate
  // Sequences that could not start because memory ran out. They have left the queue.
  std::vector<std::shared_ptr<Sequence>> failed;
};

// Continuous batching. Every step computes the next token of each generating sequence, and divides the rest
// of its token budget among prompts.
//
// Turns: prompts take turns, a few tokens at a time. The prompt that has waited longest goes next, so long
// prompts do not delay short ones. The queue takes turns, too: on its turn, a new prompt starts. More urgent
// prompts get as many turns as they can use. While any sequence generates, EngineOptions::step_time also
// limits the tokens for prompts, based on the speed of past steps.
//
// Preemption: when the cache is full, the scheduler preempts the most recently admitted sequence of the
// lowest priority. It releases the sequence's blocks and later recomputes the sequence, including generated
// tokens. The text does not change. A prompt starts only if the cache has room for all of it and for the rest
// of every prompt already started, so prompts never displace each other.
//
// Waiting: while a sequence waits for room in the cache, at most kMaxOvertaken later sequences may start
// before it. A sequence that shares a prefix with a running sequence of the same or higher priority waits
// until the shared blocks are computed.
//
// Stored prefixes: while a waiting sequence's prefix is read from disk, it is skipped. When blocks run out,
// such prefixes are given up before any sequence is preempted.
//
// Indivisible sequences: an indivisible sequence starts in a step that has room for all of its tokens,
// regardless of step_time. Until then, it waits as if the cache had no room. An encoder-decoder's input is
// also indivisible, unless it is cached; the decoder's tokens follow in later steps.
//
// Drafts: with a Speculator, draft tokens may follow the tokens of a generating sequence, if the step and the
// cache have room after everything else has been planned. Nothing is preempted for drafts. Results of
// accepted drafts are kept; later tokens overwrite rejected drafts in the cache. A recurrent layer's state
// cannot be rolled back, so drafts are computed on a copy of the state. If any draft is rejected, the
// sequence's next step has no drafts and recomputes the accepted drafts from the old state.
//
// Passes: a pass with a PassCache leaves its blocks to the next pass over the same text. The next pass takes
// over the blocks and starts before all other sequences. Until then, nothing may evict the blocks: they
// cannot be recomputed, because other tokens of the text have changed since. Blocks are kept for a pass only
// if every prompt is indivisible, so sequences that have started need no more blocks.
//
// Canvases: a pass over a canvas computes the canvas in one step, and shares only the text before it. The
// ranks keep soft embeddings for the next pass until the canvas's key is released. If they keep those of
// max_sequences canvases, passes over other canvases wait.
//
// Recomputation: if the model recomputes the whole sequence for every token, the sequence returns to the
// front of the queue after each token.
//
// Steps in flight: a step may be planned while others are in flight. Tokens in flight count as planned.
// Sequences that await a token are skipped, and sequences in flight are not preempted. Steps finish in
// the order in which they were planned.
class Scheduler {
 public:
  using Sequences = std::vector<std::shared_ptr<Sequence>>;

  static constexpr std::size_t kMaxOvertaken = 64;
  // In each step, the scheduler stops looking for sequences to start once it has found this many that cannot.
  static constexpr std::size_t kMaxLookedAt = 64;

  // `blocks` and `options` must outlive the scheduler. Without a speculator, steps have no drafts.
  Scheduler(BlockManager& blocks, const LeaderOptions& options,
            std::unique_ptr<Speculator> speculator = nullptr)
      : blocks_(blocks), options_(options), speculator_(std::move(speculator)) {}

  // From now on, prefixes are also looked up in this store, which must outlive the scheduler.
  void use_store(StoredPrefixes& store) { store_ = &store; }

  // Queues a request's samples, and returns those that WaitingQueue::add has created. The prompt and the
  // continuation of each sample must fit into the cache.
  Sequences add(const std::shared_ptr<RequestState>& state) { return waiting_.add(state); }
  // For a request that could not be added: stops counting it as waiting, and releases the blocks kept for it.
  void drop(RequestState& state) {
    waiting_.leave(state);
    release(state.pass.cache.key);
  }

  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  // All requests so far that are no longer waiting.
  const RequestCounts& left_queue() const { return waiting_.left(); }
  // Sets the fields of `status` that the scheduler knows.
  void describe(LeaderStatus& status) const;

  // Plans the next step. If there is work and nothing is in flight, the step computes at least one token or
  // reports a failed sequence.
  PlannedStep plan();

  // Processes a step that took `seconds` (0: unknown). Before the call, append the chosen tokens to the
  // sequences and set Sequence::accepted. Adds the computed blocks to the prefix cache, except for failed and
  // cancelled sequences and for passes with a PassCache.
  void finish_step(const PlannedStep& step, double seconds = 0.0);

  // Removes and returns ended sequences, and releases their blocks, except blocks kept for another pass
  // (Pass::cache). Sequences in flight stay until their steps finish.
  std::vector<std::shared_ptr<Sequence>> remove_finished();

  // Releases the blocks and the soft embeddings kept for a pass with this key. Call this after the last pass.
  void release(RequestId key);

  // Ends the request's running and waiting sequences with FinishReason::cancelled. Drops the samples that
  // have not started, and returns their number.
  std::size_t cancel(RequestId request);

  // Throws std::logic_error naming the first violated invariant.
  void check_invariants() const;

 private:
  // The step being planned.
  struct Step {
    Sequences sequences;  // sequences with tokens in this step
    std::size_t tokens = 0;
    bool preempts = false;
    Sequences failed;
  };
  // A step's progress through the queue.
  struct QueueTurn {
    WaitingQueue::Place next;
    bool closed = false;  // no further sequence can start in this step
    std::size_t looked_at = 0;
    Sequences without_room;
  };
  enum class Admission : std::uint8_t {
    admitted,
    waits,    // another sequence is computing a shared prefix
    no_room,  // no room in the cache or the step
    failed,   // memory ran out
  };

  void add_decoding(Step& step);
  std::size_t decoding_limit() const;
  void add_prompts(Step& step);
  std::size_t prompt_budget(const Step& step) const;
  std::size_t grantable(const Sequence& sequence) const;
  bool try_grant(const std::shared_ptr<Sequence>& sequence, std::size_t tokens, Step& step);
  bool try_reserve(const Sequence& sequence, std::size_t total_tokens, Step& step);
  void preempt(const std::shared_ptr<Sequence>& sequence, Step& step);
  void return_to_queue(const std::shared_ptr<Sequence>& sequence);

  void add_drafts(Step& step);
  std::size_t draft_room(const Sequence& sequence, const Step& step) const;
  void advance(const PlannedStep::Chunk& chunk);
  void note_results(const PlannedStep& step, double seconds);
  void forget(const Sequences& removed);

  bool is_open(const QueueTurn& queue, const Step& step);
  std::shared_ptr<Sequence> admit_next(QueueTurn& queue, std::size_t tokens, Step& step);
  Admission try_admit(const std::shared_ptr<Sequence>& sequence, std::size_t tokens, Step& step);
  void begin(Sequence& sequence);
  void recall_scores(Sequence& sequence);
  void keep_scores(Sequence& sequence);
  void commit(const Sequence& sequence);
  void leave_blocks(const Sequence& sequence);
  bool has_room_for_prompt(const Sequence& sequence) const;
  bool waits_for_prefix(Sequence& sequence);
  bool waits_for_store(const Sequence& sequence);
  void take_canvas(PassCanvas& canvas);
  bool waits_for_canvas(const Sequence& sequence) const;
  void note_restored(Sequence& sequence);
  bool can_store(const Sequence& sequence) const;
  std::size_t room_for_prompts() const;
  bool will_keep_state(Sequence& running, std::size_t position) const;

  void add_chunk(const std::shared_ptr<Sequence>& sequence, PlannedStep& planned);
  std::vector<BlockId> take_unsent_blocks(Sequence& sequence) const;
  ChunkState take_states(Sequence& sequence, Range computed);
  ChunkState take_trial_state(const Sequence& sequence);

  BlockManager& blocks_;
  BlockScores scores_;
  std::size_t score_limit_ = 0;  // number of blocks with scores from which unknown ones are removed
  const LeaderOptions& options_;
  std::unique_ptr<Speculator> speculator_;
  StoredPrefixes* store_ = nullptr;  // null: prefixes are only in memory
  StepTimes times_;
  WaitingQueue waiting_;
  std::list<std::shared_ptr<Sequence>> running_;  // in order of admission
  std::vector<SequenceId> ended_;                 // ended sequences not yet reported to the ranks
  std::map<RequestId, SequenceId> kept_;          // ended sequences with kept blocks, by PassCache::key
  std::set<std::uint64_t> canvases_;              // keys of canvases whose soft embeddings the ranks keep
  std::vector<std::uint64_t> ended_canvases_;     // ended canvases not yet reported to the ranks
  std::uint64_t admissions_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t queue_turn_ = 0;  // `turns_` at the queue's last turn
  std::size_t steps_in_flight_ = 0;
  std::uint64_t computed_prompt_tokens_ = 0;
  std::uint64_t prefix_queries_ = 0;
  std::uint64_t prefix_hits_ = 0;
  std::uint64_t preemptions_ = 0;
  std::uint64_t snapshot_hits_ = 0;
};

}  // namespace tp
