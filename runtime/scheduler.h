// Decides what the next step computes. Rank 0 only; no communication and no tensors.
#pragma once

#include "runtime/block_manager.h"
#include "runtime/sequence.h"
#include "runtime/step.h"

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <vector>

namespace tp {

struct SchedulerLimits {
  std::size_t prefill_chunk = 512;  // tokens of one prompt in a step at most
  std::size_t step_tokens = 512;    // tokens of a step at most
  std::size_t max_sequences = 16;   // that are worked on at once
  std::size_t vocab_size = 0;
};

// A step and the sequences whose next tokens it gives, in the order of its outputs.
struct PlannedStep {
  Step step;
  std::vector<Sequence*> outputs;
};

// Continuous batching: every step takes the next token of each running sequence, and fills what is left of
// its tokens with chunks of prompts, first come, first served. When the cache is full, the sequence that came
// last gives back its blocks and starts again later with what it has generated; its text does not change.
class Scheduler {
 public:
  // `blocks` must outlive it.
  Scheduler(BlockManager& blocks, SchedulerLimits limits) : blocks_(blocks), limits_(limits) {}

  // Queues a sequence. Its prompt and continuation must fit in the cache.
  void add(std::unique_ptr<Sequence> sequence);

  bool has_work() const { return !waiting_.empty() || !running_.empty(); }

  // The next step. It computes at least one token if there is work.
  PlannedStep plan();

  // The step that was planned last has been run: its tokens are in the cache. Call it before appending new
  // tokens.
  void mark_computed();

  // Gives back the blocks of finished sequences and forgets them.
  void remove_finished();

  // Every sequence of a request ends with FinishReason::cancelled.
  void cancel(std::uint64_t request);

 private:
  struct Planned {
    Sequence* sequence;
    std::size_t tokens;
  };

  bool try_plan_chunk(Sequence& sequence, std::size_t budget, PlannedStep& planned);
  void plan_running(PlannedStep& planned);
  void plan_waiting(PlannedStep& planned);
  bool waits_for_leader(const Sequence& sequence) const;
  void preempt(Sequence& sequence);
  bool is_planned(const Sequence& sequence) const;

  BlockManager& blocks_;
  SchedulerLimits limits_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::list<std::unique_ptr<Sequence>> running_;  // in the order of admission
  std::vector<Planned> planned_;                  // of the step at hand
  std::vector<SequenceId> ended_;                 // not yet told to the ranks
};

}  // namespace tp
