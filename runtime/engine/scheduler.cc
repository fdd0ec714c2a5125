#include "runtime/engine/scheduler.h"

#include "runtime/engine/wanted_outputs.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

namespace tp {
namespace {

// The most urgent one, and of these the one whose last turn is longest ago, comes first.
std::pair<int, std::uint64_t> place_in_turn(const std::shared_ptr<Sequence>& sequence) {
  return {sequence->priority(), sequence->last_turn};
}

// The last one is preempted first.
std::pair<int, std::uint64_t> place_in_cache(const std::shared_ptr<Sequence>& sequence) {
  return {sequence->priority(), sequence->admission};
}

// Whether only its next token is missing: such sequences come before prompts.
bool lacks_one_token(const Sequence& sequence) {
  return sequence.planned_tokens + 1 == sequence.tokens.size();
}

}  // namespace

TokenMask PlannedStep::mask(std::size_t output) const noexcept {
  try {
    return masks.at(output).get();
  } catch (...) {
    return {};  // Leader::settle reports the error
  }
}

PlannedStep Scheduler::plan() {
  Draft draft;
  draft_decoding(draft);
  draft_prompts(draft);
  PlannedStep planned;
  for (const std::shared_ptr<Sequence>& sequence : draft.sequences) add_chunk(sequence, planned);
  planned.failed = std::move(draft.failed);
  if (planned.chunks.empty()) {
    if (has_work() && steps_in_flight_ == 0 && planned.failed.empty())
      throw std::logic_error("the scheduler found no sequence that fits into the cache");
    return planned;
  }
  planned.forward.ended = std::exchange(ended_, {});
  ++steps_in_flight_;
  return planned;
}

void Scheduler::draft_decoding(Draft& draft) {
  Sequences decoding;
  std::ranges::copy_if(running_, std::back_inserter(decoding),
                       [](const auto& sequence) { return lacks_one_token(*sequence) && !sequence->idle(); });
  std::ranges::stable_sort(decoding, {}, &Sequence::priority);
  for (const std::shared_ptr<Sequence>& sequence : decoding) {
    if (draft.tokens == limits_.step_tokens) return;
    if (sequence->admission != 0) try_grant(sequence, 1, draft);  // else preempted for another
  }
}

void Scheduler::draft_prompts(Draft& draft) {
  constexpr std::size_t kMostTurns = 64;  // of a step, to bound the work of planning it
  const std::size_t budget = prompt_budget(draft);
  const std::size_t end = draft.tokens + budget;
  const std::size_t turn = std::max(StepTimes::kLeastPromptTokens, budget / kMostTurns);
  Sequences prompts;
  std::ranges::copy_if(running_, std::back_inserter(prompts),
                       [](const auto& sequence) { return !lacks_one_token(*sequence); });
  QueueTurn queue{.next = waiting_.begin(), .without_room = {}};
  while (draft.tokens < end) {
    const std::size_t tokens = std::min(turn, end - draft.tokens);
    std::erase_if(prompts, [&](const auto& sequence) { return grantable(*sequence) == 0; });
    const auto next = std::ranges::min_element(prompts, {}, place_in_turn);
    if (is_open(queue, draft) && (next == prompts.end() || std::pair((*queue.next)->priority(),
                                                                     queue_turn_) <= place_in_turn(*next))) {
      if (const std::shared_ptr<Sequence> begun = admit_next(queue, tokens, draft)) prompts.push_back(begun);
    } else if (next == prompts.end()) {
      return;
    } else if (try_grant(*next, tokens, draft)) {
      (*next)->last_turn = ++turns_;
    } else {
      prompts.erase(next);
    }
  }
}

// How many tokens of prompts the step may compute.
std::size_t Scheduler::prompt_budget(const Draft& draft) const {
  const std::size_t room = limits_.step_tokens - draft.tokens;
  const bool generates = std::ranges::any_of(
      running_, [](const auto& sequence) { return sequence->decodes() && !sequence->finished(); });
  if (limits_.step_ms == 0.0 || !generates) return room;
  return std::min({room, limits_.prefill_chunk, times_.prompt_tokens_in(limits_.step_ms / 1000.0)});
}

// How many more of the sequence's tokens the step could have.
std::size_t Scheduler::grantable(const Sequence& sequence) const {
  if (sequence.admission == 0 || sequence.idle()) return 0;  // preempted, or nothing to do
  const bool has_rows = sequence.is_asked() && sequence.state->request.prompt_logits;
  const bool few = has_rows && !sequence.indivisible();
  const std::size_t most = few ? std::min(limits_.prefill_chunk, kMaxWholeRows) : limits_.prefill_chunk;
  return std::min(most - sequence.granted, sequence.work() - sequence.planned_tokens);
}

// Adds up to `tokens` of the sequence's next tokens to the step; false if the cache has no room.
bool Scheduler::try_grant(const std::shared_ptr<Sequence>& shared, std::size_t tokens, Draft& draft) {
  Sequence& sequence = *shared;
  tokens = std::min(tokens, grantable(sequence));
  if (!try_reserve(sequence, sequence.planned_tokens + tokens, draft)) return false;
  if (sequence.granted == 0) draft.sequences.push_back(shared);
  sequence.granted += tokens;
  sequence.planned_tokens += tokens;
  draft.tokens += tokens;
  return true;
}

// Reserves blocks, for a sequence's first tokens in a step at the expense of others if need be. One that is
// in flight keeps its blocks until it is settled, and one in this step unless it is less urgent.
bool Scheduler::try_reserve(const Sequence& sequence, std::size_t total_tokens, Draft& draft) {
  std::vector<BlockId> new_blocks;
  while (!blocks_.try_reserve(sequence.id, total_tokens, new_blocks)) {
    const std::shared_ptr<Sequence> last = *std::ranges::max_element(running_, {}, place_in_cache);
    const bool is_behind = last.get() != &sequence && last->in_flight == 0 &&
                           (last->granted == 0 || last->priority() > sequence.priority());
    if (sequence.granted > 0 || !is_behind) return false;
    preempt(last, draft);
  }
  return true;
}

// Releases a running sequence's blocks and returns it to the queue.
void Scheduler::preempt(const std::shared_ptr<Sequence>& sequence, Draft& draft) {
  std::erase(draft.sequences, sequence);
  draft.tokens -= std::exchange(sequence->granted, 0);
  draft.preempts = true;
  blocks_.end_sequence(sequence->id);
  if (sequence->announced) ended_.push_back(sequence->id);
  sequence->admission = 0;
  sequence->computed_tokens = 0;
  sequence->planned_tokens = 0;
  running_.remove(sequence);
  waiting_.put_back(sequence);
  ++preemptions_;
}

// Whether another sequence may begin. When the cache is so full that one had to be preempted, none may.
bool Scheduler::is_open(const QueueTurn& queue, const Draft& draft) {
  return !queue.closed && !draft.preempts && queue.next != waiting_.end() &&
         running_.size() < limits_.max_sequences && blocks_.free_blocks() > 0;
}

// Admits the next sequence that can begin, with up to `tokens` tokens in the step, and returns it; null if
// there is none, or one has failed.
std::shared_ptr<Sequence> Scheduler::admit_next(QueueTurn& queue, std::size_t tokens, Draft& draft) {
  while (queue.next != waiting_.end()) {
    const std::shared_ptr<Sequence> sequence = *queue.next;
    const Admission admission = try_admit(sequence, tokens, draft);
    if (admission == Admission::admitted || admission == Admission::failed) {
      queue.next = waiting_.dequeue(queue.next);
      for (const auto& passed : queue.without_room) {
        if (++passed->overtaken == kMaxOvertaken) queue.closed = true;
      }
      return admission == Admission::admitted ? sequence : nullptr;
    }
    if (admission == Admission::no_room) {
      if (sequence->overtaken == kMaxOvertaken) break;
      queue.without_room.push_back(sequence);
    }
    if (++queue.looked_at == kMaxLookedAt) break;
    ++queue.next;
  }
  queue.closed = true;
  return nullptr;
}

// Admits a sequence, with its first tokens in the step, if possible.
Scheduler::Admission Scheduler::try_admit(const std::shared_ptr<Sequence>& sequence, std::size_t tokens,
                                          Draft& draft) {
  try {
    if (sequence->tokens.empty()) sequence->tokens = sequence->state->request.prompt;
  } catch (const std::bad_alloc&) {
    draft.failed.push_back(sequence);
    return Admission::failed;
  }
  if (waits_for_prefix(*sequence)) return Admission::waits;
  if (sequence->indivisible()) tokens = sequence->work();
  if (draft.tokens + tokens > limits_.step_tokens) return Admission::no_room;
  begin(*sequence);
  if (!has_room_for_prompt(*sequence)) {
    blocks_.end_sequence(sequence->id);
    sequence->computed_tokens = sequence->planned_tokens = 0;
    return Admission::no_room;
  }
  sequence->admission = ++admissions_;
  sequence->overtaken = 0;
  running_.push_back(sequence);
  if (sequence->uses_prefix_cache()) prefix_queries_ += sequence->work();
  prefix_hits_ += sequence->computed_tokens;
  require<std::logic_error>(try_grant(sequence, tokens, draft),
                            "sequence {}: the cache has no room after all", sequence->id);
  sequence->last_turn = ++turns_;
  queue_turn_ = ++turns_;
  return Admission::admitted;
}

// Looks up the sequence's prefix in the cache, if it may use it.
void Scheduler::begin(Sequence& sequence) {
  const std::span<const TokenId> tokens(sequence.tokens);
  // Prompt outputs need the logits of their position even if the cache has its keys and values.
  const std::size_t needed = sequence.is_asked() ? sequence.asked_from + 1 : sequence.work();
  if (sequence.uses_prefix_cache())
    sequence.computed_tokens =
        blocks_.begin_sequence(sequence.id, tokens.first(needed), sequence.state->request.cache_salt);
  else
    blocks_.begin_unshared_sequence(sequence.id);
  sequence.planned_tokens = sequence.computed_tokens;
  if (sequence.generated_tokens() == 0) sequence.cached_tokens = sequence.computed_tokens;
  sequence.sent_blocks = 0;
  sequence.announced = false;
}

// Whether the cache has room for all of a sequence that has just begun, besides the rest of the prompts that
// are being computed.
bool Scheduler::has_room_for_prompt(const Sequence& sequence) const {
  const auto missing = [&](const Sequence& prompt) {
    return blocks_.missing_blocks(prompt.id, prompt.work(), limits_.prefill_chunk);
  };
  std::size_t blocks = missing(sequence);
  for (const std::shared_ptr<Sequence>& running : running_) {
    if (!running->idle()) blocks += missing(*running);
  }
  return blocks <= blocks_.free_blocks();
}

// Whether a running sequence, not a less urgent one, is computing full blocks that this one could then find
// in the cache. Every pair of sequences is compared only once.
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
    if (other.priority() > sequence.priority()) continue;
    if (other.state->request.cache_salt != sequence.state->request.cache_salt) continue;
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

// Adds the tokens that the sequence was granted to the step.
void Scheduler::add_chunk(const std::shared_ptr<Sequence>& shared, PlannedStep& planned) {
  Sequence& sequence = *shared;
  Forward& forward = planned.forward;
  const std::size_t tokens = std::exchange(sequence.granted, 0);
  const std::size_t end = sequence.planned_tokens;
  const std::size_t begin = end - tokens;
  if (sequence.decodes() && tokens == 1)
    ++planned.decoding;
  else
    planned.prompt_tokens += tokens;

  SequenceChunk chunk;
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
  sequence.awaits_token = end == sequence.tokens.size() && sequence.state->max_tokens > 0;
  ++sequence.in_flight;
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

void Scheduler::settle(const PlannedStep& step, double seconds) {
  if (step.chunks.empty()) return;
  --steps_in_flight_;
  times_.add(step.prompt_tokens, step.decoding, seconds);
  for (const PlannedStep::Chunk& chunk : step.chunks) {
    Sequence& sequence = *chunk.sequence;
    --sequence.in_flight;
    const std::size_t before = std::min(sequence.computed_tokens, sequence.prompt_tokens());
    sequence.computed_tokens += chunk.tokens;
    computed_prompt_tokens_ += std::min(sequence.computed_tokens, sequence.prompt_tokens()) - before;
    const FinishReason reason = sequence.finish_reason;
    if (reason != FinishReason::error && reason != FinishReason::cancelled)
      blocks_.commit(sequence.id, sequence.tokens, sequence.computed_tokens);
  }
}

std::vector<std::shared_ptr<Sequence>> Scheduler::remove_finished() {
  Sequences removed;
  waiting_.remove_finished(removed);
  running_.remove_if([&](const auto& sequence) {
    if (!sequence->finished() || sequence->in_flight > 0) return false;
    blocks_.end_sequence(sequence->id);
    ended_.push_back(sequence->id);
    removed.push_back(sequence);
    return true;
  });
  return removed;
}

std::size_t Scheduler::cancel(RequestId request) {
  std::size_t dropped = 0;
  const auto cancel_it = [&](const std::shared_ptr<Sequence>& sequence) {
    if (sequence->state->id != request || sequence->finished()) return;
    sequence->finish_reason = FinishReason::cancelled;
    sequence->state->cancelled = true;
    dropped += waiting_.drop_samples(*sequence->state);
    waiting_.leave(*sequence->state);
  };
  std::ranges::for_each(waiting_.sequences(), cancel_it);
  std::ranges::for_each(running_, cancel_it);
  return dropped;
}

void Scheduler::describe(LeaderStatus& status) const {
  status.queued = waiting_.size();
  status.running = running_.size();
  status.decoding = static_cast<std::size_t>(
      std::ranges::count_if(running_, [](const auto& sequence) { return sequence->decodes(); }));
  status.prefilling = status.running - status.decoding;
  status.computed_prompt_tokens = computed_prompt_tokens_;
  status.prefix_queries = prefix_queries_;
  status.prefix_hits = prefix_hits_;
  status.preemptions = preemptions_;
  status.prefill_tokens_per_second = times_.prefill_tokens_per_second();
  status.decode_tokens_per_second = times_.decode_tokens_per_second();
}

void Scheduler::check_invariants() const {
  const auto check = [](const Sequence& sequence, bool holds, const char* what) {
    require<std::logic_error>(holds, "sequence {}: {}", sequence.id, what);
  };
  waiting_.check_invariants();
  for (const std::shared_ptr<Sequence>& sequence : waiting_.sequences()) {
    check(*sequence, sequence->admission == 0 && sequence->in_flight == 0, "it is waiting, but in a step");
    check(*sequence, !sequence->awaits_token && sequence->planned_tokens == 0,
          "it is waiting with planned tokens");
    check(*sequence, sequence->overtaken <= kMaxOvertaken, "too many others have overtaken it");
  }
  require<std::logic_error>(running_.size() <= limits_.max_sequences, "{} sequences run, {} may",
                            running_.size(), limits_.max_sequences);
  std::uint64_t last_admission = 0;
  for (const std::shared_ptr<Sequence>& sequence : running_) {
    check(*sequence, sequence->admission > last_admission, "it is not in the order of admission");
    last_admission = sequence->admission;
    check(*sequence, sequence->granted == 0, "it keeps tokens of a step that was planned");
    check(*sequence, sequence->computed_tokens <= sequence->planned_tokens, "more is computed than planned");
    check(*sequence, (sequence->computed_tokens == sequence->planned_tokens) == (sequence->in_flight == 0),
          "what is planned and not computed is not in flight");
    check(*sequence, sequence->planned_tokens <= sequence->tokens.size(), "more is planned than there is");
    check(*sequence, sequence->in_flight <= steps_in_flight_, "it is in more steps than there are");
    check(*sequence, blocks_.table(sequence->id).size() == sequence->sent_blocks, "the ranks lack blocks");
  }
}

}  // namespace tp
