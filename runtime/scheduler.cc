#include "runtime/scheduler.h"

#include "runtime/candidates.h"

#include <algorithm>
#include <stdexcept>

namespace tp {

void Scheduler::add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }

PlannedStep Scheduler::plan() {
  PlannedStep planned;
  planned_.clear();
  plan_running(planned);
  plan_waiting(planned);
  planned.step.ended = std::move(ended_);
  ended_.clear();
  if (planned_.empty() && has_work()) {
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
  planned_.push_back({&sequence, tokens});
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
  const auto still_running = [&](const Sequence* wanted) {
    return std::any_of(running_.begin(), running_.end(), [&](const auto& s) { return s.get() == wanted; });
  };
  for (Sequence* sequence : order) {
    if (!still_running(sequence)) continue;  // it was preempted for another
    const std::size_t budget = limits_.step_tokens - planned.step.tokens.size();
    if (budget == 0) return;
    while (!try_plan_chunk(*sequence, budget, planned)) {
      Sequence& last = *running_.back();
      // What is in the step already keeps its blocks until the step is done.
      if (&last == sequence || is_planned(last)) break;
      preempt(last);
    }
  }
}

void Scheduler::plan_waiting(PlannedStep& planned) {
  for (auto next = waiting_.begin(); next != waiting_.end() && running_.size() < limits_.max_sequences;) {
    const std::size_t budget = limits_.step_tokens - planned.step.tokens.size();
    if (budget == 0) return;
    Sequence& sequence = **next;
    if (waits_for_leader(sequence)) {
      ++next;
      continue;
    }
    sequence.computed_tokens = blocks_.begin_sequence(sequence.id, sequence.tokens);
    if (sequence.generated_tokens() == 0) sequence.cached_tokens = sequence.computed_tokens;
    sequence.sent_blocks = 0;
    sequence.announced = false;
    if (!try_plan_chunk(sequence, budget, planned)) {
      blocks_.end_sequence(sequence.id);
      sequence.computed_tokens = 0;
      return;  // later ones must not overtake it for ever
    }
    running_.push_back(std::move(*next));
    next = waiting_.erase(next);
  }
}

bool Scheduler::waits_for_leader(const Sequence& sequence) const {
  const auto is_leader_in_prompt = [&](const std::unique_ptr<Sequence>& other) {
    return other->id == sequence.leader && other->computed_tokens < other->prompt_tokens;
  };
  return sequence.leader != sequence.id &&
         (std::any_of(running_.begin(), running_.end(), is_leader_in_prompt) ||
          std::any_of(waiting_.begin(), waiting_.end(), is_leader_in_prompt));
}

// Takes a running sequence's blocks away and puts it at the head of the queue.
void Scheduler::preempt(Sequence& sequence) {
  blocks_.end_sequence(sequence.id);
  ended_.push_back(sequence.id);
  sequence.computed_tokens = 0;
  const auto place = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& other) { return other.get() == &sequence; });
  waiting_.push_front(std::move(*place));
  running_.erase(place);
}

bool Scheduler::is_planned(const Sequence& sequence) const {
  return std::any_of(planned_.begin(), planned_.end(),
                     [&](const Planned& p) { return p.sequence == &sequence; });
}

void Scheduler::mark_computed() {
  for (const auto& [sequence, tokens] : planned_) {
    sequence->computed_tokens += tokens;
    blocks_.commit(sequence->id, sequence->tokens, sequence->computed_tokens);
  }
  planned_.clear();
}

void Scheduler::remove_finished() {
  std::erase_if(waiting_, [](const auto& sequence) { return sequence->finished(); });
  running_.remove_if([&](const auto& sequence) {
    if (!sequence->finished()) return false;
    blocks_.end_sequence(sequence->id);
    ended_.push_back(sequence->id);
    return true;
  });
}

void Scheduler::cancel(std::uint64_t request) {
  const auto cancel_it = [&](const std::unique_ptr<Sequence>& sequence) {
    if (sequence->state->id == request) sequence->finish_reason = FinishReason::cancelled;
  };
  std::for_each(waiting_.begin(), waiting_.end(), cancel_it);
  std::for_each(running_.begin(), running_.end(), cancel_it);
  remove_finished();
}

}  // namespace tp
