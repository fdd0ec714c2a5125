#include "runtime/scheduler.h"

#include "runtime/candidates.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

namespace tp {

PlannedStep Scheduler::plan() {
  PlannedStep planned;
  plan_running(planned);
  if (try_plan_waiting(planned)) plan_requests(planned);
  if (!planned_.empty()) planned.step.ended = std::exchange(ended_, {});
  if (planned_.empty() && planned.failed.empty() && has_work()) {
    throw std::logic_error("the scheduler found no sequence that fits into the cache");
  }
  return planned;
}

// Adds up to `budget` of the sequence's tokens that are not computed to the step; false if the cache has no
// room.
bool Scheduler::try_plan_chunk(Sequence& sequence, std::size_t budget, PlannedStep& planned) {
  const std::size_t tokens =
      std::min({budget, limits_.prefill_chunk, sequence.tokens.size() - sequence.computed_tokens});
  SequenceChunk chunk;
  if (!blocks_.try_reserve(sequence.id, sequence.computed_tokens + tokens, chunk.new_blocks)) return false;

  const std::span<const BlockId> table = blocks_.table(sequence.id);
  chunk.sequence = sequence.id;
  chunk.start_position = sequence.computed_tokens;
  chunk.tokens = static_cast<std::uint32_t>(tokens);
  chunk.first_chunk = !sequence.announced;
  chunk.new_blocks.assign(table.begin() + static_cast<std::ptrdiff_t>(sequence.sent_blocks), table.end());
  sequence.announced = true;
  sequence.sent_blocks = table.size();

  Step& step = planned.step;
  const auto first = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(sequence.computed_tokens);
  step.tokens.insert(step.tokens.end(), first, first + static_cast<std::ptrdiff_t>(tokens));
  step.chunks.push_back(std::move(chunk));
  sequence.planned_tokens = tokens;
  planned_.push_back(&sequence);
  if (sequence.computed_tokens + tokens == sequence.tokens.size()) {
    const std::size_t wanted =
        candidates_needed(sequence.state->request.sampling, sequence.history, limits_.vocab_size);
    step.outputs.push_back(
        {static_cast<std::uint32_t>(step.tokens.size() - 1), static_cast<std::uint32_t>(wanted)});
    planned.outputs.push_back(&sequence);
  }
  return true;
}

void Scheduler::plan_running(PlannedStep& planned) {
  // Sequences that generate come first: a prompt's chunk must not take their place in a step.
  std::vector<Sequence*> order;
  for (const auto& sequence : running_) order.push_back(sequence.get());
  std::stable_partition(order.begin(), order.end(), [](const Sequence* sequence) {
    return sequence->computed_tokens + 1 == sequence->tokens.size();
  });
  for (Sequence* sequence : order) {
    if (!sequence->announced) continue;  // it was preempted for another
    if (budget_of(planned) == 0) return;
    while (!try_plan_chunk(*sequence, budget_of(planned), planned)) {
      const Sequence& last = *running_.back();
      // What is in the step already keeps its blocks until the step is done.
      if (&last == sequence || last.planned_tokens != 0) break;
      preempt_last();
    }
  }
}

// False if one finds no room in the cache: later ones must not overtake it for ever.
bool Scheduler::try_plan_waiting(PlannedStep& planned) {
  for (auto next = waiting_.begin(); next != waiting_.end() && has_room(planned);) {
    if (waits_for_prompt(*(*next)->state, (*next)->sample)) {
      ++next;
    } else if (try_admit(*next, planned)) {
      next = waiting_.erase(next);
    } else {
      return false;
    }
  }
  return true;
}

void Scheduler::plan_requests(PlannedStep& planned) {
  for (auto next = requests_.begin(); next != requests_.end() && has_room(planned);) {
    if (waits_for_prompt(*next->state, next->next_sample)) {
      ++next;
      continue;
    }
    std::unique_ptr<Sequence> sequence = begin_sample(*next, planned);
    if (next->next_sample == next->state->request.n) next = requests_.erase(next);
    if (!sequence) return;  // what ends will have given memory back by the next step
    if (!try_admit(sequence, planned)) {
      waiting_.push_back(std::move(sequence));
      return;
    }
  }
}

// Null if there is no memory for it.
std::unique_ptr<Sequence> Scheduler::begin_sample(QueuedRequest& request, PlannedStep& planned) {
  const int sample = request.next_sample++;
  try {
    auto sequence = std::make_unique<Sequence>(request.state, sample);
    if (sample == 0 && request.state->request.n > 1) uncomputed_prompts_.insert(request.state->id);
    return sequence;
  } catch (const std::bad_alloc&) {
    planned.failed.emplace_back(request.state->id, sample);
    return nullptr;
  }
}

// Takes a sequence among those that run, with its first chunk in the step, if the cache has room for it.
bool Scheduler::try_admit(std::unique_ptr<Sequence>& sequence, PlannedStep& planned) {
  sequence->computed_tokens = blocks_.begin_sequence(sequence->id, sequence->tokens);
  if (sequence->generated_tokens() == 0) sequence->cached_tokens = sequence->computed_tokens;
  sequence->sent_blocks = 0;
  if (!try_plan_chunk(*sequence, budget_of(planned), planned)) {
    blocks_.end_sequence(sequence->id);
    sequence->computed_tokens = 0;
    return false;
  }
  running_.push_back(std::move(sequence));
  return true;
}

// Takes the blocks of the sequence that came last away and puts it at the head of the queue.
void Scheduler::preempt_last() {
  Sequence& sequence = *running_.back();
  blocks_.end_sequence(sequence.id);
  ended_.push_back(sequence.id);
  sequence.computed_tokens = 0;
  sequence.announced = false;
  if (sequence.sample == 0 && sequence.state->request.n > 1) uncomputed_prompts_.insert(sequence.state->id);
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
}

void Scheduler::mark_computed() {
  for (Sequence* const sequence : planned_) {
    sequence->computed_tokens += std::exchange(sequence->planned_tokens, 0);
    blocks_.commit(sequence->id, sequence->tokens, sequence->computed_tokens);
    if (sequence->sample == 0 && sequence->computed_tokens >= sequence->prompt_tokens)
      uncomputed_prompts_.erase(sequence->state->id);
  }
  planned_.clear();
}

void Scheduler::remove_finished() {
  running_.remove_if([&](const auto& sequence) {
    if (!sequence->finished()) return false;
    blocks_.end_sequence(sequence->id);
    ended_.push_back(sequence->id);
    return true;
  });
}

void Scheduler::cancel(std::uint64_t request) {
  std::erase_if(requests_, [&](const QueuedRequest& queued) { return queued.state->id == request; });
  std::erase_if(waiting_, [&](const auto& sequence) { return sequence->state->id == request; });
  for (const auto& sequence : running_) {
    if (sequence->state->id == request) sequence->finish_reason = FinishReason::cancelled;
  }
  uncomputed_prompts_.erase(request);
  remove_finished();
}

}  // namespace tp
