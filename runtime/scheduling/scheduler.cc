#include "runtime/scheduling/scheduler.h"

#include "runtime/scheduling/wanted_outputs.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

namespace tp {
namespace {

// Sort key for turns: the most urgent sequence first, then the sequence that has waited longest for a turn.
std::pair<int, std::uint64_t> place_in_turn(const std::shared_ptr<Sequence>& sequence) {
  return {sequence->priority(), sequence->last_turn};
}

// Sort key for preemption: the last sequence in this order is preempted first.
std::pair<int, std::uint64_t> place_in_cache(const std::shared_ptr<Sequence>& sequence) {
  return {sequence->priority(), sequence->admission};
}

// Whether, apart from the tokens counted by `redo`, only the sequence's last token has yet to be planned.
// Such sequences are planned before prompts.
bool lacks_one_token(const Sequence& sequence) {
  return sequence.planned_tokens + sequence.redo + 1 == sequence.tokens.size();
}

// Rounds `tokens`, the number to grant to the sequence, down to whole attention blocks, with a minimum of one
// block. Returns 0 if the result exceeds `room`, or for a canvas `max`.
std::size_t in_whole_blocks(const Sequence& sequence, std::size_t tokens, std::size_t max, std::size_t room) {
  const std::size_t block = sequence.attention_block();
  const std::size_t left = sequence.work() - sequence.planned_tokens;
  if (sequence.has_canvas() && tokens < left) {  // ends before the canvas, or with it
    const std::size_t text = sequence.text_end() - sequence.planned_tokens;
    if (text > 0) return std::min(tokens, text);
    return left <= std::min(max, room) ? left : 0;
  }
  if (block == 1 || tokens >= left) return tokens;
  const std::size_t begin = sequence.planned_tokens;
  const std::size_t end = std::max((begin + tokens) / block, begin / block + 1) * block;
  tokens = std::min(end - begin, left);
  return tokens <= room ? tokens : 0;
}

// Appends the marks (token types, for example) of a prompt's tokens [begin, end), which start at token
// `first` of the batch. Tokens without a mark get 0. If no prompt has marks, `all` stays empty.
void append_marks(const std::vector<std::uint8_t>& marks, std::size_t begin, std::size_t end,
                  std::size_t first, std::vector<std::uint8_t>& all) {
  if (marks.empty() || begin >= marks.size()) return;
  all.resize(first);
  all.insert(all.end(), marks.begin() + static_cast<std::ptrdiff_t>(begin),
             marks.begin() + static_cast<std::ptrdiff_t>(std::min(end, marks.size())));
}

}  // namespace

PlannedStep Scheduler::plan() {
  Step step;
  add_decoding(step);
  add_prompts(step);
  if (speculator_) add_drafts(step);
  PlannedStep planned;
  for (const std::shared_ptr<Sequence>& sequence : step.sequences) add_chunk(sequence, planned);
  // Only a prompt with token types or global tokens makes these vectors grow. The other tokens get 0.
  if (!planned.forward.token_types.empty()) planned.forward.token_types.resize(planned.forward.tokens.size());
  if (!planned.forward.is_global.empty()) planned.forward.is_global.resize(planned.forward.tokens.size());
  planned.failed = std::move(step.failed);
  if (planned.chunks.empty()) {
    const bool is_stuck = has_work() && steps_in_flight_ == 0 && planned.failed.empty();
    if (!is_stuck || (store_ != nullptr && store_->is_lending())) return planned;
    // Prefixes that have been read may take the room that another sequence needs.
    if (store_ != nullptr && store_->give_up_newest()) return plan();
    throw std::logic_error("the scheduler found no sequence that fits into the cache");
  }
  planned.forward.ended = std::exchange(ended_, {});  // not before: an empty step is not sent
  planned.forward.ended_canvases = std::exchange(ended_canvases_, {});
  ++steps_in_flight_;
  return planned;
}

void Scheduler::add_decoding(Step& step) {
  Sequences decoding;
  std::ranges::copy_if(running_, std::back_inserter(decoding),
                       [](const auto& sequence) { return lacks_one_token(*sequence) && !sequence->idle(); });
  std::ranges::stable_sort(decoding, {}, &Sequence::priority);
  const std::size_t max = decoding_limit();
  for (const std::shared_ptr<Sequence>& sequence : decoding) {
    const std::size_t tokens = 1 + sequence->redo;
    if (step.sequences.size() == max || step.tokens + tokens > options_.step_tokens) return;
    if (sequence->admission != 0) try_grant(sequence, tokens, step);  // 0: preempted
  }
}

// Maximum number of generating sequences in a step. A pipeline divides all generating sequences evenly among
// its steps in flight.
std::size_t Scheduler::decoding_limit() const {
  const auto generates = [](const auto& sequence) { return sequence->decodes() && !sequence->finished(); };
  const auto all = static_cast<std::size_t>(std::ranges::count_if(running_, generates));
  return std::min(options_.step_tokens,
                  std::max<std::size_t>(1, (all + options_.engine.pipeline - 1) / options_.engine.pipeline));
}

void Scheduler::add_prompts(Step& step) {
  constexpr std::size_t kMaxTurns = 64;  // turns per step; limits planning time
  const std::size_t budget = prompt_budget(step);
  const std::size_t end = step.tokens + budget;
  const std::size_t turn = std::max(StepTimes::kMinPromptTokens, budget / kMaxTurns);
  Sequences prompts;
  std::ranges::copy_if(running_, std::back_inserter(prompts),
                       [](const auto& sequence) { return !lacks_one_token(*sequence); });
  QueueTurn queue{.next = waiting_.begin(), .without_room = {}};
  while (step.tokens < end) {
    const std::size_t tokens = std::min(turn, end - step.tokens);
    std::erase_if(prompts, [&](const auto& sequence) { return grantable(*sequence) == 0; });
    const auto next = std::ranges::min_element(prompts, {}, place_in_turn);
    if (is_open(queue, step) && (next == prompts.end() ||
                                 std::pair((*queue.next)->priority(), queue_turn_) <= place_in_turn(*next))) {
      if (const std::shared_ptr<Sequence> begun = admit_next(queue, tokens, step)) prompts.push_back(begun);
    } else if (next == prompts.end()) {
      return;
    } else if (try_grant(*next, tokens, step)) {
      (*next)->last_turn = ++turns_;
    } else {
      prompts.erase(next);
    }
  }
}

// Maximum number of prompt tokens to add to the step.
std::size_t Scheduler::prompt_budget(const Step& step) const {
  const std::size_t room = options_.step_tokens - step.tokens;
  const bool generates = std::ranges::any_of(
      running_, [](const auto& sequence) { return sequence->decodes() && !sequence->finished(); });
  if (options_.engine.step_time.count() == 0.0 || !generates) return room;
  return std::min({room, options_.engine.prefill_chunk, times_.prompt_tokens_in(options_.engine.step_time)});
}

// How many more of the sequence's tokens can be added to the step, room permitting.
std::size_t Scheduler::grantable(const Sequence& sequence) const {
  if (sequence.admission == 0 || sequence.idle()) return 0;  // preempted, or nothing to do
  if (sequence.encodes()) return sequence.granted == 0 ? sequence.min_chunk() : 0;
  const bool has_rows = sequence.is_asked() && sequence.state->request.prompt_logits;
  const bool few = has_rows && !sequence.indivisible();
  const std::size_t max =
      few ? std::min(options_.engine.prefill_chunk, kMaxWholeRows) : options_.engine.prefill_chunk;
  return std::min(max - std::min(max, sequence.granted), sequence.work() - sequence.planned_tokens);
}

// Adds the sequence's next tokens to the step: `tokens` of them, capped by grantable() and rounded by
// in_whole_blocks(). Returns false if the cache or the step has no room.
bool Scheduler::try_grant(const std::shared_ptr<Sequence>& shared, std::size_t tokens, Step& step) {
  Sequence& sequence = *shared;
  const std::size_t max = grantable(sequence);
  tokens = in_whole_blocks(sequence, std::min(tokens, max), max, options_.step_tokens - step.tokens);
  if (tokens == 0 || !try_reserve(sequence, sequence.planned_tokens + tokens, step)) return false;
  if (sequence.granted == 0) step.sequences.push_back(shared);
  sequence.granted += tokens;
  sequence.planned_tokens += tokens;
  step.tokens += tokens;
  return true;
}

// Reserves blocks for the sequence. Preempts other sequences if necessary, but only for the sequence's first
// tokens in a step. Never preempts sequences in flight, and preempts sequences with tokens in this step only
// if they are less urgent.
bool Scheduler::try_reserve(const Sequence& sequence, std::size_t total_tokens, Step& step) {
  std::vector<BlockId> new_blocks;
  while (!blocks_.try_reserve(sequence.id, total_tokens, new_blocks)) {
    const std::optional<bool> freed = store_ != nullptr ? store_->give_up_newest() : std::nullopt;
    if (freed && !*freed) return false;
    if (freed) continue;
    const std::shared_ptr<Sequence> last = *std::ranges::max_element(running_, {}, place_in_cache);
    const bool is_behind = last.get() != &sequence && last->in_flight == 0 &&
                           (last->granted == 0 || last->priority() > sequence.priority());
    if (sequence.granted > 0 || !is_behind) return false;
    preempt(last, step);
  }
  return true;
}

// Releases a running sequence's blocks and returns it to the queue.
void Scheduler::preempt(const std::shared_ptr<Sequence>& sequence, Step& step) {
  std::erase(step.sequences, sequence);
  step.tokens -= std::exchange(sequence->granted, 0);
  step.preempts = true;
  return_to_queue(sequence);
  ++preemptions_;
}

// Returns a running sequence to the queue, to be recomputed from its first token.
void Scheduler::return_to_queue(const std::shared_ptr<Sequence>& sequence) {
  if (store_ != nullptr) store_->forget(sequence->id);
  blocks_.end_sequence(sequence->id);
  if (sequence->announced) ended_.push_back(sequence->id);
  sequence->admission = 0;
  sequence->computed_tokens = 0;
  sequence->planned_tokens = 0;
  sequence->redo = 0;
  running_.remove(sequence);
  waiting_.put_back(sequence);
}

// Whether another sequence may start. None may start after a preemption, because the cache is full.
bool Scheduler::is_open(const QueueTurn& queue, const Step& step) {
  return !queue.closed && !step.preempts && queue.next != waiting_.end() &&
         running_.size() < options_.engine.max_sequences &&
         (blocks_.free_blocks() > 0 || (*queue.next)->has_blocks_waiting());
}

// Admits the next sequence that can start, with up to `tokens` tokens in the step, and returns it. Returns
// null if no sequence can start or if a sequence has failed.
std::shared_ptr<Sequence> Scheduler::admit_next(QueueTurn& queue, std::size_t tokens, Step& step) {
  while (queue.next != waiting_.end()) {
    const std::shared_ptr<Sequence> sequence = *queue.next;
    const Admission admission = try_admit(sequence, tokens, step);
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

// Admits a sequence, if possible, and adds its first tokens to the step.
Scheduler::Admission Scheduler::try_admit(const std::shared_ptr<Sequence>& sequence, std::size_t tokens,
                                          Step& step) {
  try {
    if (sequence->tokens.empty()) sequence->tokens = sequence->state->request.prompt;
  } catch (const std::bad_alloc&) {
    step.failed.push_back(sequence);
    return Admission::failed;
  }
  if (waits_for_prefix(*sequence) || waits_for_store(*sequence) || waits_for_canvas(*sequence))
    return Admission::waits;
  if (sequence->min_chunk() > 1) tokens = sequence->min_chunk();
  const std::size_t min = sequence->has_canvas() ? sequence->work() - sequence->text_end()
                                                 : std::min(sequence->work(), sequence->attention_block());
  if (step.tokens + std::max(tokens, min) > options_.step_tokens) return Admission::no_room;
  begin(*sequence);
  if (!sequence->has_blocks_waiting() && !has_room_for_prompt(*sequence)) {
    blocks_.end_sequence(sequence->id);
    sequence->computed_tokens = sequence->planned_tokens = 0;
    return Admission::no_room;
  }
  sequence->admission = ++admissions_;
  sequence->overtaken = 0;
  take_canvas(sequence->state->pass.canvas);
  if (store_ != nullptr) note_restored(*sequence);
  running_.push_back(sequence);
  if (sequence->uses_prefix_cache()) {
    prefix_queries_ += sequence->work();
    prefix_hits_ += sequence->computed_tokens;
  }
  if (blocks_.first_state(sequence->id) != kNoSlot) ++snapshot_hits_;
  require<std::logic_error>(try_grant(sequence, tokens, step), "sequence {}: the cache has no room after all",
                            sequence->id);
  sequence->last_turn = ++turns_;
  queue_turn_ = ++turns_;
  return Admission::admitted;
}

// Adds the sequence's granted tokens and its drafts to the step.
void Scheduler::add_chunk(const std::shared_ptr<Sequence>& shared, PlannedStep& planned) {
  Sequence& sequence = *shared;
  Forward& forward = planned.forward;
  const std::size_t tokens = std::exchange(sequence.granted, 0);
  const std::size_t end = sequence.planned_tokens;
  const std::size_t begin = end - tokens;
  std::vector<TokenId> drafts = std::exchange(sequence.drafts, {});
  const std::size_t redo = std::exchange(sequence.redo, 0);
  if (sequence.decodes() && tokens == 1 + redo)
    ++planned.decoding;
  else
    planned.prompt_tokens += tokens;

  // The padding of an input's last block is not computed.
  const EncodedInput& input = sequence.state->input;
  const std::size_t computed = begin < input.positions ? input.tokens : tokens;
  SequenceChunk chunk;
  chunk.sequence = sequence.id;
  chunk.start_position = begin;
  chunk.tokens = static_cast<std::uint32_t>(computed + drafts.size());
  if (!sequence.announced) chunk.start = start_of(sequence, begin);
  chunk.new_blocks = take_unsent_blocks(sequence);
  if (blocks_.keeps_states())
    chunk.state = drafts.empty() ? take_states(sequence, {begin, end}) : take_trial_state(sequence);
  sequence.announced = true;

  std::vector<Output> outputs = outputs_of(sequence, begin, end, forward.tokens.size(), drafts);
  const std::size_t first_output = forward.outputs.size();
  planned.chunks.push_back({shared, tokens, end, drafts, first_output, outputs.size()});
  std::ranges::move(outputs, std::back_inserter(forward.outputs));
  const auto first = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(begin);
  const Request& request = sequence.state->request;
  append_marks(request.token_types, begin, end, forward.tokens.size(), forward.token_types);
  append_marks(request.global_tokens, begin, end, forward.tokens.size(), forward.is_global);
  forward.tokens.insert(forward.tokens.end(), first, first + static_cast<std::ptrdiff_t>(computed));
  forward.tokens.insert(forward.tokens.end(), drafts.begin(), drafts.end());
  forward.chunks.push_back(std::move(chunk));
  sequence.awaits_token = end == sequence.tokens.size() && sequence.state->max_tokens > 0;
  ++sequence.in_flight;
}

void Scheduler::finish_step(const PlannedStep& step, double seconds) {
  if (step.chunks.empty()) return;
  --steps_in_flight_;
  note_results(step, seconds);
  for (const PlannedStep::Chunk& chunk : step.chunks) {
    Sequence& sequence = *chunk.sequence;
    --sequence.in_flight;
    const std::size_t before = std::min(sequence.computed_tokens, sequence.prompt_tokens());
    advance(chunk);
    computed_prompt_tokens_ += std::min(sequence.computed_tokens, sequence.prompt_tokens()) - before;
    const FinishReason reason = sequence.finish_reason;
    // Blocks kept for another pass are not committed: commit() would release those outside the attention
    // windows, but the next pass needs all of them.
    const bool is_kept = sequence.state->pass.cache.key != 0;
    if (reason != FinishReason::error && reason != FinishReason::cancelled && !is_kept) {
      commit(sequence);
      keep_scores(sequence);
    }
    if (sequence.indivisible() && sequence.generated_tokens() > 0 && !sequence.finished())
      return_to_queue(chunk.sequence);
  }
}

std::vector<std::shared_ptr<Sequence>> Scheduler::remove_finished() {
  Sequences removed;
  waiting_.remove_finished(removed);
  for (const auto& sequence : removed) {
    release(sequence->state->pass.cache.key);
    release(sequence->state->pass.canvas.key);
    waiting_.leave(*sequence->state);
    if (store_ != nullptr) store_->leave(sequence->id);
  }
  running_.remove_if([&](const auto& sequence) {
    if (!sequence->finished() || sequence->in_flight > 0) return false;
    leave_blocks(*sequence);
    removed.push_back(sequence);
    return true;
  });
  forget(removed);
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
  status.snapshot_hits = snapshot_hits_;
  if (speculator_) status.speculation = speculator_->counts();
  if (store_ != nullptr) status.store = store_->status();
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
  require<std::logic_error>(running_.size() <= options_.engine.max_sequences, "{} sequences run, {} may",
                            running_.size(), options_.engine.max_sequences);
  for (const auto& [key, kept] : kept_)
    require<std::logic_error>(!blocks_.table(kept).empty(), "no blocks wait for the passes {}", key);
  std::uint64_t last_admission = 0;
  for (const std::shared_ptr<Sequence>& sequence : running_) {
    check(*sequence, sequence->admission > last_admission, "it is not in the order of admission");
    last_admission = sequence->admission;
    check(*sequence, sequence->granted == 0 && sequence->drafts.empty() && sequence->accepted == 0,
          "it keeps tokens of a step that was planned");
    check(*sequence, sequence->computed_tokens <= sequence->planned_tokens, "more is computed than planned");
    check(*sequence, (sequence->computed_tokens == sequence->planned_tokens) == (sequence->in_flight == 0),
          "what is planned and not computed is not in flight");
    check(*sequence, sequence->planned_tokens <= sequence->tokens.size(), "more is planned than there is");
    check(*sequence, sequence->in_flight <= steps_in_flight_, "it is in more steps than there are");
    check(*sequence, blocks_.table(sequence->id).size() == sequence->sent_blocks, "the ranks lack blocks");
  }
}

}  // namespace tp
