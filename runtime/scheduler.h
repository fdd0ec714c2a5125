// Decides what the next step computes. Rank 0 only; no communication and no tensors.
#pragma once

#include "runtime/block_manager.h"
#include "runtime/sequence.h"
#include "runtime/step.h"

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <unordered_set>
#include <utility>
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
  // Requests and their samples that were to begin, but there was no memory for them: they have ended.
  std::vector<std::pair<std::uint64_t, int>> failed;
};

// Continuous batching: every step takes the next token of each running sequence, and fills what is left of
// its tokens with chunks of prompts, first come, first served. When the cache is full, the sequence that came
// last gives back its blocks and starts again later with what it has generated; its text does not change.
//
// A sample becomes a sequence when its turn comes: a request with many costs no more memory than those that
// are worked on, and no time while they wait.
class Scheduler {
 public:
  // `blocks` must outlive it.
  Scheduler(BlockManager& blocks, SchedulerLimits limits) : blocks_(blocks), limits_(limits) {}

  // Queues a request. Its prompt and continuation must fit in the cache.
  void add(std::shared_ptr<const RequestState> request) { requests_.push_back({std::move(request)}); }

  bool has_work() const { return !requests_.empty() || !waiting_.empty() || !running_.empty(); }

  // The next step. If there is work, it computes at least one token, or a sample has failed.
  PlannedStep plan();

  // The step that was planned last has been run: its tokens are in the cache. Call it before appending new
  // tokens.
  void mark_computed();

  // Gives back the blocks of finished sequences and forgets them.
  void remove_finished();

  // Every sequence of a request ends with FinishReason::cancelled.
  void cancel(std::uint64_t request);

 private:
  // A request of which some samples have not begun.
  struct QueuedRequest {
    std::shared_ptr<const RequestState> state;
    int next_sample = 0;
  };

  bool try_plan_chunk(Sequence& sequence, std::size_t budget, PlannedStep& planned);
  void plan_running(PlannedStep& planned);
  bool try_plan_waiting(PlannedStep& planned);
  void plan_requests(PlannedStep& planned);
  bool try_admit(std::unique_ptr<Sequence>& sequence, PlannedStep& planned);
  std::unique_ptr<Sequence> begin_sample(QueuedRequest& request, PlannedStep& planned);
  std::size_t budget_of(const PlannedStep& planned) const {
    return limits_.step_tokens - planned.step.tokens.size();
  }
  bool has_room(const PlannedStep& planned) const {
    return running_.size() < limits_.max_sequences && budget_of(planned) > 0;
  }
  bool waits_for_prompt(const RequestState& request, int sample) const {
    return sample != 0 && uncomputed_prompts_.contains(request.id);
  }
  void preempt_last();

  BlockManager& blocks_;
  SchedulerLimits limits_;
  std::deque<QueuedRequest> requests_;
  // Sequences that were preempted, and perhaps a new one that found no room.
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::list<std::unique_ptr<Sequence>> running_;  // in the order of admission
  // Requests whose first sample has not computed the prompt: the others wait, and share its blocks.
  std::unordered_set<std::uint64_t> uncomputed_prompts_;
  std::vector<Sequence*> planned_;  // for the step at hand
  std::vector<SequenceId> ended_;   // not yet told to the ranks
};

}  // namespace tp
