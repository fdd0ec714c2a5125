// Draft tokens in the scheduler's steps.
#include "runtime/cache/snapshots.h"
#include "runtime/constraint/request_constraint.h"
#include "runtime/scheduling/scheduler.h"
#include "tp/error.h"

#include <algorithm>
#include <cstdint>

namespace tp {
namespace {

// Whether drafts may follow the sequence's last token in this step. The sequence must be generating, and the
// step must compute its last token. Sequences with a mask callback get no drafts, because the callback must
// only see tokens that the model has chosen.
bool can_speculate(const Sequence& sequence) {
  const Request& request = sequence.state->request;
  const bool has_last = sequence.planned_tokens == sequence.tokens.size();
  return request.speculate && !request.allowed_tokens && sequence.generated_tokens() > 0 && has_last &&
         sequence.granted == 1 && sequence.redo == 0;
}

// Whether a draft source that reads the model's hidden states can already process the sequence's prompt while
// the model is still computing it.
bool can_follow(const Sequence& sequence) {
  const Request& request = sequence.state->request;
  const bool computes_prompt = sequence.generated_tokens() == 0 || sequence.granted > 1;
  return request.speculate && !request.allowed_tokens && sequence.state->max_tokens > 0 && computes_prompt &&
         sequence.computed_tokens > 0;
}

// A query for up to `max` draft tokens after the sequence's first `tokens` tokens.
DraftQuery query_about(const Sequence& sequence, std::size_t tokens, std::size_t max) {
  return {.sequence = sequence.id,
          .tokens = std::span(sequence.tokens).first(tokens),
          .prompt_tokens = sequence.prompt_tokens(),
          .max_tokens = max,
          .request = &sequence.state->request,
          .seed = sequence.state->seed,
          .sample = static_cast<std::uint64_t>(sequence.sample)};
}

// Number of draft tokens before the first one that ends the text or violates the constraint.
std::size_t possible_tokens(const Sequence& sequence, std::span<const TokenId> tokens) {
  const RequestState& state = *sequence.state;
  const auto end = std::ranges::find_first_of(tokens, state.end_ids);
  const auto before_end = static_cast<std::size_t>(end - tokens.begin());
  if (!state.constraint) return before_end;
  constraint::Progress progress = sequence.constraint_progress();
  for (std::size_t i = 0; i < before_end; ++i) {
    try {
      progress = state.constraint->after(progress, tokens[i]);
    } catch (const RequestError&) {  // the constraint would become too large
      return i;
    }
    if (progress.state == constraint::kDead) return i;
  }
  return before_end;
}

}  // namespace

// Adds drafts to the step's sequences, but only as many as are expected to save time.
void Scheduler::add_drafts(Step& step) {
  Sequences able;
  std::vector<DraftQuery> queries;
  std::size_t choices = 0;  // number of tokens that the step would choose without drafts
  for (const std::shared_ptr<Sequence>& sequence : step.sequences) {
    if (sequence->planned_tokens == sequence->tokens.size() && sequence->state->max_tokens > 0) ++choices;
    const std::size_t max = can_speculate(*sequence) ? draft_room(*sequence, step) : 0;
    if (max == 0) continue;
    able.push_back(sequence);
    queries.push_back(query_about(*sequence, sequence->tokens.size(), max));
  }
  for (const std::shared_ptr<Sequence>& sequence : step.sequences) {
    if (!speculator_->follows_prompts() || !can_follow(*sequence)) continue;
    // The token after the computed tokens is also known.
    const std::size_t known = std::min(sequence->computed_tokens + 1, sequence->tokens.size());
    queries.push_back(query_about(*sequence, known, 0));
  }
  if (queries.empty()) return;
  const Speculator::StepSize size = {
      .rows = step.tokens,
      .sequences = choices,
      .room = options_.step_tokens - std::min(options_.step_tokens, step.tokens)};
  std::vector<Draft> drafts = speculator_->draft(queries, size);
  drafts.resize(able.size());  // the other queries ask for no drafts
  for (std::size_t i = 0; i < able.size(); ++i)
    drafts[i].shorten_to(possible_tokens(*able[i], drafts[i].tokens));
  speculator_->select(drafts, size);
  for (std::size_t i = 0; i < able.size(); ++i) {
    std::vector<BlockId> new_blocks;
    const std::size_t tokens = able[i]->planned_tokens + drafts[i].tokens.size();
    if (drafts[i].tokens.empty() || !blocks_.try_reserve(able[i]->id, tokens, new_blocks)) continue;
    step.tokens += drafts[i].tokens.size();
    able[i]->drafts = std::move(drafts[i].tokens);
  }
}

// Maximum number of draft tokens for the sequence in this step.
std::size_t Scheduler::draft_room(const Sequence& sequence, const Step& step) const {
  const std::size_t end = sequence.planned_tokens;
  // Besides the accepted drafts, a step generates one more token.
  std::size_t to_generate = sequence.state->max_tokens - sequence.generated_tokens() - 1;
  if (sequence.state->forced_last && to_generate > 0) --to_generate;  // the forced token needs its own step
  const std::size_t room = options_.step_tokens - std::min(options_.step_tokens, step.tokens);
  std::size_t max = std::min(
      {speculator_->max_drafts(), to_generate, room, options_.engine.prefill_chunk - sequence.granted});
  // Each draft may be a thinking token, so drafts must stop before the end of thinking is forced.
  if (sequence.text) max = std::min(max, sequence.text->tokens_until_forced());
  if (!blocks_.keeps_states() || max == 0) return max;
  // States that other sequences start from must be saved by a chunk without drafts, because a chunk with
  // drafts may be recomputed.
  if (!sequence.announced) return 0;
  const SnapshotPositions saves = snapshot_positions(
      {end - sequence.granted, end + max}, sequence.prompt_tokens(), sequence.left_at, blocks_.block_size());
  const std::size_t first =
      std::min(saves.kept.empty() ? SIZE_MAX : saves.kept.front(), saves.latest.value_or(SIZE_MAX));
  if (first == SIZE_MAX) return max;
  return first > end ? first - end - 1 : 0;
}

// A copy of the sequence's state, for computing the last token and the drafts.
ChunkState Scheduler::take_trial_state(const Sequence& sequence) {
  const StateSlot from = blocks_.state(sequence.id);
  return {.slot = blocks_.take_trial_state(sequence.id), .from = from, .saves = {}};
}

// Updates a sequence's token counts after a step has computed its chunk.
void Scheduler::advance(const PlannedStep::Chunk& chunk) {
  Sequence& sequence = *chunk.sequence;
  const std::size_t accepted = std::exchange(sequence.accepted, 0);
  const bool all = accepted == chunk.drafts.size();
  if (blocks_.keeps_states() && !chunk.drafts.empty()) blocks_.resolve_trial_state(sequence.id, all);
  if (blocks_.keeps_states() && !all) {
    sequence.planned_tokens = sequence.computed_tokens;
    sequence.redo = chunk.tokens + accepted;
  } else {
    sequence.computed_tokens += chunk.tokens + accepted;
    sequence.planned_tokens += accepted;
  }
}

// Must run before advance(), which resets Sequence::accepted.
void Scheduler::note_results(const PlannedStep& step, double seconds) {
  Speculator::StepOutcome outcome{.rows = step.forward.tokens.size(),
                                  .seconds = step.prompt_tokens == 0 ? seconds : 0.0};
  for (const PlannedStep::Chunk& chunk : step.chunks) {
    if (chunk.drafts.empty()) continue;
    outcome.drafted += chunk.drafts.size();
    outcome.accepted += chunk.sequence->accepted;
    speculator_->count(chunk.drafts.size(), chunk.sequence->accepted);
  }
  times_.add(step.prompt_tokens, step.decoding + outcome.accepted, seconds);
  if (speculator_) speculator_->observe(outcome);
}

void Scheduler::forget(const Sequences& removed) {
  if (!speculator_) return;
  for (const std::shared_ptr<Sequence>& sequence : removed) {
    const RequestState& state = *sequence->state;
    const bool is_known = state.request.speculate && !state.is_pass() && !sequence->tokens.empty();
    speculator_->end(is_known ? query_about(*sequence, sequence->tokens.size(), 0)
                              : DraftQuery{.sequence = sequence->id});
  }
}

}  // namespace tp
