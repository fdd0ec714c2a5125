#include "runtime/engine/scheduler.h"

#include "runtime/engine/wanted_outputs.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

namespace tp {

TokenMask PlannedStep::mask(std::size_t output) const noexcept {
  try {
    return masks.at(output).get();
  } catch (...) {
    return {};  // Leader::settle reports the error
  }
}

void Scheduler::add(const std::shared_ptr<RequestState>& state) {
  waiting_.push_back(make_sample(state));
  queued_ += static_cast<std::size_t>(state->request.n);
}

// Creates the request's next sample.
std::shared_ptr<Sequence> Scheduler::make_sample(const std::shared_ptr<RequestState>& state) {
  auto sequence = std::make_shared<Sequence>();
  sequence->id = next_id_++;
  sequence->sample = state->request.n - state->not_begun;
  --state->not_begun;
  if (state->request.score_from) sequence->asked_from = *state->request.score_from - 1;
  if (state->request.prompt_logits) sequence->asked_from = 0;
  sequence->state = state;
  return sequence;
}

PlannedStep Scheduler::plan() {
  PlannedStep planned;
  plan_running(planned);
  plan_waiting(planned);
  if (planned.chunks.empty()) {
    if (has_work() && steps_in_flight_ == 0 && planned.failed.empty())
      throw std::logic_error("the scheduler found no sequence that fits into the cache");
    return planned;
  }
  planned.forward.ended = std::exchange(ended_, {});
  ++steps_in_flight_;
  return planned;
}

// Adds as many of the sequence's next tokens to the step as the limits allow; false if the cache has no room,
// or the step none for all of an indivisible sequence.
bool Scheduler::try_plan_chunk(const std::shared_ptr<Sequence>& shared, PlannedStep& planned) {
  Sequence& sequence = *shared;
  Forward& forward = planned.forward;
  const std::size_t begin = sequence.planned_tokens;
  std::size_t tokens =
      std::min({limits_.step_tokens - forward.tokens.size(), limits_.prefill_chunk, sequence.work() - begin});
  if (sequence.indivisible()) {
    if (tokens < sequence.work()) return false;
  } else if (sequence.is_asked() && sequence.state->request.prompt_logits) {
    tokens = std::min(tokens, kMaxWholeRows);
  }
  const std::size_t end = begin + tokens;
  SequenceChunk chunk;
  if (!blocks_.try_reserve(sequence.id, end, chunk.new_blocks)) return false;

  chunk.sequence = sequence.id;
  chunk.start_position = begin;
  chunk.tokens = static_cast<std::uint32_t>(tokens);
  if (!sequence.announced) chunk.start = start_of(sequence, begin);
  chunk.new_blocks = take_unsent_blocks(sequence);
  sequence.announced = true;

  std::vector<Output> outputs = outputs_of(sequence, begin, end, forward.tokens.size());
  planned.chunks.push_back({shared, tokens, forward.outputs.size(), outputs.size()});
  std::ranges::move(outputs, std::back_inserter(forward.outputs));
  const auto first = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(begin);
  forward.tokens.insert(forward.tokens.end(), first, first + static_cast<std::ptrdiff_t>(tokens));
  forward.chunks.push_back(std::move(chunk));
  sequence.planned_tokens = end;
  sequence.awaits_token = end == sequence.tokens.size() && sequence.state->max_tokens > 0;
  ++sequence.in_flight;
  return true;
}

// The entries of its tables that the ranks do not have yet: new blocks and, with its first chunk, cached
// ones.
std::vector<BlockId> Scheduler::take_unsent_blocks(Sequence& sequence) const {
  std::vector<BlockId> unsent;
  for (std::size_t group = 0; group < blocks_.groups(); ++group) {
    const auto added = blocks_.table(sequence.id, group).subspan(sequence.sent_blocks);
    unsent.insert(unsent.end(), added.begin(), added.end());
  }
  sequence.sent_blocks = blocks_.table(sequence.id).size();
  return unsent;
}

void Scheduler::plan_running(PlannedStep& planned) {
  // Decoding sequences first: prompt chunks must not displace them from a step.
  std::vector<std::shared_ptr<Sequence>> order(running_.begin(), running_.end());
  std::stable_partition(order.begin(), order.end(), [](const auto& sequence) {
    return sequence->planned_tokens + 1 == sequence->tokens.size();
  });
  for (const std::shared_ptr<Sequence>& sequence : order) {
    if (planned.forward.tokens.size() == limits_.step_tokens) return;
    if (sequence->admission == 0 || sequence->idle()) continue;  // preempted for another, or nothing to do
    while (!try_plan_chunk(sequence, planned)) {
      const std::shared_ptr<Sequence> last = running_.back();
      // A sequence in flight keeps its blocks until it is settled.
      if (last == sequence || last->in_flight > 0) break;
      preempt(last);
    }
  }
}

void Scheduler::plan_waiting(PlannedStep& planned) {
  std::size_t looked_at = 0;
  std::vector<std::shared_ptr<Sequence>> without_room;
  for (auto next = waiting_.begin(); next != waiting_.end() && has_room(planned);) {
    const Admission admission = try_admit(*next, planned);
    if (admission == Admission::admitted || admission == Admission::failed) {
      next = dequeue(next);
      for (const auto& passed : without_room) {
        if (++passed->overtaken == kMaxOvertaken) return;
      }
      continue;
    }
    if (admission == Admission::no_room) {
      if ((*next)->overtaken == kMaxOvertaken) return;
      without_room.push_back(*next);
    }
    if (++looked_at == kMaxLookedAt) return;
    ++next;
  }
}

// Removes a sequence from the queue; the next sample of its request takes its place. Returns the next entry.
Scheduler::Sequences::iterator Scheduler::dequeue(Sequences::iterator place) {
  const std::shared_ptr<Sequence> sequence = *place;
  --queued_;
  const auto next = waiting_.erase(place);
  return sequence->is_last_begun() ? waiting_.insert(next, make_sample(sequence->state)) : next;
}

bool Scheduler::has_room(const PlannedStep& planned) const {
  return running_.size() < limits_.max_sequences && planned.forward.tokens.size() < limits_.step_tokens &&
         blocks_.free_blocks() > 0;
}

// Admits a sequence, with its first chunk in the step, if possible.
Scheduler::Admission Scheduler::try_admit(const std::shared_ptr<Sequence>& sequence, PlannedStep& planned) {
  try {
    if (sequence->tokens.empty()) sequence->tokens = sequence->state->request.prompt;
  } catch (const std::bad_alloc&) {
    planned.failed.push_back(sequence);
    return Admission::failed;
  }
  if (waits_for_prefix(*sequence)) return Admission::waits;
  begin(*sequence);
  if (!try_plan_chunk(sequence, planned)) {
    blocks_.end_sequence(sequence->id);
    sequence->computed_tokens = sequence->planned_tokens = 0;
    return Admission::no_room;
  }
  sequence->admission = ++admissions_;
  sequence->overtaken = 0;
  running_.push_back(sequence);
  if (sequence->uses_prefix_cache()) prefix_queries_ += sequence->work();
  prefix_hits_ += sequence->computed_tokens;
  return Admission::admitted;
}

// Looks up the sequence's prefix in the cache, if it may use it.
void Scheduler::begin(Sequence& sequence) {
  const std::span<const TokenId> tokens(sequence.tokens);
  // Prompt outputs need the logits of their position even if the cache has its keys and values.
  const std::size_t needed = sequence.is_asked() ? sequence.asked_from + 1 : sequence.work();
  if (sequence.uses_prefix_cache())
    sequence.computed_tokens = blocks_.begin_sequence(sequence.id, tokens.first(needed));
  else
    blocks_.begin_unshared_sequence(sequence.id);
  sequence.planned_tokens = sequence.computed_tokens;
  if (sequence.generated_tokens() == 0) sequence.cached_tokens = sequence.computed_tokens;
  sequence.sent_blocks = 0;
  sequence.announced = false;
}

// Whether a running sequence is computing full blocks that this one could then find in the cache. Every pair
// of sequences is compared only once.
bool Scheduler::waits_for_prefix(Sequence& sequence) {
  if (!sequence.uses_prefix_cache()) return false;
  const auto still_computing = [&](const Sequence* other) {
    return other != nullptr && other->admission != 0 && !other->finished() &&
           other->computed_tokens < sequence.shared_tokens;
  };
  if (still_computing(sequence.ahead.lock().get())) return true;
  sequence.ahead.reset();
  sequence.shared_tokens = 0;
  const std::size_t longest = sequence.work() - 1;  // the last token is always computed
  for (auto next = running_.rbegin(); next != running_.rend(); ++next) {
    const Sequence& other = **next;
    if (other.admission <= sequence.compared_to) break;
    if (other.computed_tokens == other.work() || !other.uses_prefix_cache()) continue;
    const auto [end, other_end] = std::ranges::mismatch(sequence.tokens, other.tokens);
    const auto common = std::min(static_cast<std::size_t>(end - sequence.tokens.begin()), longest);
    const std::size_t shared = common / blocks_.block_size() * blocks_.block_size();
    if (shared <= std::max(sequence.shared_tokens, other.computed_tokens)) continue;
    sequence.ahead = *next;
    sequence.shared_tokens = shared;
  }
  sequence.compared_to = admissions_;
  return !sequence.ahead.expired();
}

// Releases a running sequence's blocks and returns it to the head of the queue.
void Scheduler::preempt(const std::shared_ptr<Sequence>& sequence) {
  blocks_.end_sequence(sequence->id);
  ended_.push_back(sequence->id);
  sequence->admission = 0;
  sequence->computed_tokens = 0;
  sequence->planned_tokens = 0;
  running_.remove(sequence);
  waiting_.push_front(sequence);
  ++queued_;
  ++preemptions_;
}

void Scheduler::settle(const PlannedStep& step) {
  if (step.chunks.empty()) return;
  --steps_in_flight_;
  for (const PlannedStep::Chunk& chunk : step.chunks) {
    Sequence& sequence = *chunk.sequence;
    --sequence.in_flight;
    sequence.computed_tokens += chunk.tokens;
    const FinishReason reason = sequence.finish_reason;
    if (reason != FinishReason::error && reason != FinishReason::cancelled)
      blocks_.commit(sequence.id, sequence.tokens, sequence.computed_tokens);
  }
}

std::vector<std::shared_ptr<Sequence>> Scheduler::remove_finished() {
  std::vector<std::shared_ptr<Sequence>> removed;
  waiting_.remove_if([&](const auto& sequence) {
    if (!sequence->finished()) return false;
    --queued_;
    removed.push_back(sequence);
    return true;
  });
  running_.remove_if([&](const auto& sequence) {
    if (!sequence->finished() || sequence->in_flight > 0) return false;
    blocks_.end_sequence(sequence->id);
    ended_.push_back(sequence->id);
    removed.push_back(sequence);
    return true;
  });
  return removed;
}

void Scheduler::cancel(RequestId request) {
  const auto cancel_it = [&](const std::shared_ptr<Sequence>& sequence) {
    RequestState& state = *sequence->state;
    if (state.id != request || sequence->finished()) return;
    sequence->finish_reason = FinishReason::cancelled;
    state.cancelled = true;
    queued_ -= static_cast<std::size_t>(state.not_begun);
    state.open_samples -= std::exchange(state.not_begun, 0);
  };
  std::ranges::for_each(waiting_, cancel_it);
  std::ranges::for_each(running_, cancel_it);
}

void Scheduler::check_invariants() const {
  const auto check = [](const Sequence& sequence, bool holds, const char* what) {
    require<std::logic_error>(holds, "sequence {}: {}", sequence.id, what);
  };
  std::size_t queued = 0;
  for (const std::shared_ptr<Sequence>& sequence : waiting_) {
    queued += 1 + (sequence->is_last_begun() ? static_cast<std::size_t>(sequence->state->not_begun) : 0);
    check(*sequence, sequence->admission == 0 && sequence->in_flight == 0, "it is waiting, but in a step");
    check(*sequence, !sequence->awaits_token && sequence->planned_tokens == 0,
          "it is waiting with planned tokens");
    check(*sequence, sequence->overtaken <= kMaxOvertaken, "too many others have overtaken it");
  }
  require<std::logic_error>(queued == queued_, "{} sequences wait, {} are counted", queued, queued_);
  require<std::logic_error>(running_.size() <= limits_.max_sequences, "{} sequences run, {} may",
                            running_.size(), limits_.max_sequences);
  std::uint64_t last_admission = 0;
  for (const std::shared_ptr<Sequence>& sequence : running_) {
    check(*sequence, sequence->admission > last_admission, "it is not in the order of admission");
    last_admission = sequence->admission;
    check(*sequence, sequence->computed_tokens <= sequence->planned_tokens, "more is computed than planned");
    check(*sequence, (sequence->computed_tokens == sequence->planned_tokens) == (sequence->in_flight == 0),
          "what is planned and not computed is not in flight");
    check(*sequence, sequence->planned_tokens <= sequence->tokens.size(), "more is planned than there is");
    check(*sequence, sequence->in_flight <= steps_in_flight_, "it is in more steps than there are");
    check(*sequence, blocks_.table(sequence->id).size() == sequence->sent_blocks, "the ranks lack blocks");
  }
}

}  // namespace tp
