// The scheduler's use of the cache: prefixes, room for prompts, and blocks to announce to the ranks.
#include "runtime/cache/snapshots.h"
#include "runtime/scheduling/scheduler.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tp {

// Looks up the sequence's prefix in the cache, if the request allows it. A pass takes over the blocks kept
// for it.
void Scheduler::begin(Sequence& sequence) {
  const PassCache& passes = sequence.state->pass.cache;
  const std::span<const TokenId> tokens(sequence.tokens);
  recall_scores(sequence);
  // A prompt position with outputs must be computed, even if its keys and values are cached.
  const std::size_t needed = sequence.is_asked() ? sequence.asked_from + 1 : sequence.work();
  if (passes.is_filled) {
    const auto kept = kept_.extract(passes.key);
    require<std::logic_error>(!kept.empty(), "sequence {}: the blocks that waited for it are gone",
                              sequence.id);
    blocks_.hand_over(kept.mapped(), sequence.id);
    sequence.computed_tokens = passes.begin;
  } else if (sequence.uses_prefix_cache()) {
    sequence.computed_tokens =
        blocks_.begin_sequence(sequence.id, tokens.first(needed), sequence.state->request.cache_salt,
                               sequence.state->input.positions);
  } else {
    blocks_.begin_unshared_sequence(sequence.id);
  }
  sequence.planned_tokens = sequence.computed_tokens;
  if (sequence.generated_tokens() == 0)
    sequence.cached_tokens = sequence.state->input.tokens_until(sequence.computed_tokens);
  sequence.sent_blocks = 0;
  sequence.announced = false;
}

// Takes scores that earlier prompts left for the sequence's first blocks, so that these blocks need not be
// computed again: only the token before the first unknown score must be, which predicts that token.
void Scheduler::recall_scores(Sequence& sequence) {
  const RequestState& state = *sequence.state;
  const Request& request = state.request;
  const bool is_new = sequence.is_asked() && sequence.asked_from == state.first_asked();
  if (!request.score_from || request.prompt_logits || !is_new || !sequence.can_recall()) return;
  const std::size_t size = blocks_.block_size();
  const std::span<const TokenId> prompt(sequence.tokens.data(), state.asked_end());
  const std::vector<ContentId> contents = blocks_.known_contents(prompt, request.cache_salt);
  const auto top = static_cast<std::size_t>(request.score_top);
  std::size_t token = *request.score_from;
  TokenScores recalled;
  for (std::size_t block = token / size; block < contents.size(); ++block) {
    const TokenScores* known = scores_.find(contents[block], top);
    if (known == nullptr) break;
    const std::size_t end = (block + 1) * size;
    recalled.append(std::span(known->logprobs).last(end - token),
                    std::span(known->top).last(top == 0 ? 0 : end - token));
    token = end;
  }
  for (auto& likeliest : recalled.top) likeliest.resize(std::min(likeliest.size(), top));
  if (recalled.logprobs.empty()) return;
  sequence.asked_from = token - 1;
  sequence.recalled = std::move(recalled.logprobs);
  sequence.prompt_top = std::move(recalled.top);
}

// Keeps the scores of the sequence's full blocks for later prompts.
void Scheduler::keep_scores(Sequence& sequence) {
  TokenScores& unkept = sequence.unkept;
  if (unkept.logprobs.empty()) return;
  const std::size_t size = blocks_.block_size();
  const auto top = static_cast<std::size_t>(sequence.state->request.score_top);
  while (true) {
    // The first token of a text has no score.
    const bool is_first = sequence.unkept_from == 1 && size > 1;
    const std::size_t block = is_first ? 0 : blocks_.blocks_for(sequence.unkept_from);
    const std::size_t begin = std::max<std::size_t>(block * size, 1);
    const std::size_t end = (block + 1) * size;
    if (end > sequence.unkept_from + unkept.logprobs.size() || end > sequence.computed_tokens) break;
    TokenScores scores;
    const std::size_t first = begin - sequence.unkept_from;
    scores.append(std::span(unkept.logprobs).subspan(first, end - begin),
                  unkept.top.empty()
                      ? std::span<const std::vector<TokenLogprob>>()
                      : std::span<const std::vector<TokenLogprob>>(unkept.top).subspan(first, end - begin));
    scores_.keep(blocks_.contents_of(sequence.id, {block, block + 1}).front(), std::move(scores), top);
    unkept.drop(end - sequence.unkept_from);
    sequence.unkept_from = end;
  }
  // Contents that later contents follow stay known without a block, so the limit may have to grow.
  if (scores_.size() <= std::max(blocks_.num_blocks(), score_limit_)) return;
  scores_.remove_unknown([this](ContentId contents) { return blocks_.knows(contents); });
  score_limit_ = 2 * scores_.size();
}

namespace {

// The sequence's first `tokens` tokens, for the store.
StoredPrefixes::Text stored_text(const Sequence& sequence, std::size_t tokens) {
  return {.id = sequence.id,
          .tokens = std::span(sequence.tokens).first(tokens),
          .salt = sequence.state->request.cache_salt,
          .prompt_tokens = sequence.prompt_tokens()};
}

}  // namespace

// Whether the sequence's blocks may be written to the store and read from it.
bool Scheduler::can_store(const Sequence& sequence) const {
  return store_ != nullptr && sequence.uses_prefix_cache() && sequence.state->input.positions == 0 &&
         sequence.state->pass.cache.key == 0;
}

// Adds the sequence's computed blocks to the prefix cache and to the store.
void Scheduler::commit(const Sequence& sequence) {
  const std::size_t computed = std::min(sequence.computed_tokens, sequence.text_end());
  blocks_.commit(sequence.id, sequence.tokens, computed);
  if (can_store(sequence)) store_->add(stored_text(sequence, sequence.text_end()), computed);
}

// Keeps an ended sequence's blocks if another pass over the same text may follow; otherwise releases them.
void Scheduler::leave_blocks(const Sequence& sequence) {
  const RequestId key = sequence.state->pass.cache.key;
  ended_.push_back(sequence.id);
  // Another canvas may take the place of a cancelled one at once.
  if (sequence.finish_reason != FinishReason::length) release(sequence.state->pass.canvas.key);
  if (key != 0 && sequence.finish_reason == FinishReason::length) {
    kept_.emplace(key, sequence.id);
    return;
  }
  if (can_store(sequence)) store_->end(stored_text(sequence, sequence.text_end()));
  blocks_.end_sequence(sequence.id);
}

void Scheduler::release(RequestId key) {
  if (const auto kept = kept_.extract(key); !kept.empty()) blocks_.end_sequence(kept.mapped());
  if (canvases_.erase(key) != 0) ended_canvases_.push_back(key);
}

// Lets the ranks keep the soft embeddings that the pass leaves.
void Scheduler::take_canvas(PassCanvas& canvas) {
  if (!canvas.has_next) return;
  canvases_.insert(canvas.key);
  canvas.has_room = true;
}

// Whether a pass over a canvas must wait until the ranks have room for its soft embeddings.
bool Scheduler::waits_for_canvas(const Sequence& sequence) const {
  const PassCanvas& canvas = sequence.state->pass.canvas;
  return canvas.has_next && !canvases_.contains(canvas.key) &&
         canvases_.size() >= options_.engine.max_sequences;
}

// Whether the cache has room for the whole prompt of a sequence that has just started, in addition to what is
// left of the prompts already being computed.
bool Scheduler::has_room_for_prompt(const Sequence& sequence) const {
  return blocks_.missing_blocks(sequence.id, sequence.work(), options_.engine.prefill_chunk) <=
         room_for_prompts();
}

// The number of free blocks that the prompts already being computed don't need.
std::size_t Scheduler::room_for_prompts() const {
  std::size_t blocks = 0;
  for (const std::shared_ptr<Sequence>& running : running_) {
    if (!running->idle())
      blocks += blocks_.missing_blocks(running->id, running->work(), options_.engine.prefill_chunk);
  }
  return blocks_.free_blocks() - std::min(blocks, blocks_.free_blocks());
}

// Whether a prefix of the sequence is being read from the store. If the store has a longer prefix than the
// cache, and the cache has room for the whole prompt, starts reading it.
bool Scheduler::waits_for_store(const Sequence& sequence) {
  if (!can_store(sequence)) return false;
  const std::size_t needed = sequence.is_asked() ? sequence.asked_from + 1 : sequence.work();
  const std::size_t room = room_for_prompts();
  const CacheShape shape{blocks_.block_size(), options_.engine.prefill_chunk, options_.cache.windows};
  return store_->must_wait(stored_text(sequence, needed),
                           shape.blocks_for(sequence.work()) <= room ? room : 0,
                           times_.prefill_tokens_per_second());
}

// Whether a running sequence of the same or higher priority is computing whole blocks that `sequence` can
// share once they are done. Compares each pair of sequences only once.
bool Scheduler::waits_for_prefix(Sequence& sequence) {
  if (!sequence.uses_prefix_cache()) return false;
  const auto still_computing = [&](const Sequence* other) {
    return other != nullptr && other->admission != 0 && !other->finished() &&
           other->computed_tokens < sequence.shared_tokens;
  };
  if (still_computing(sequence.ahead.lock().get())) return true;
  sequence.ahead.reset();
  sequence.shared_tokens = 0;
  // The last token and a canvas are always computed.
  const std::size_t longest = std::min(sequence.work() - 1, sequence.text_end());
  for (auto next = running_.rbegin(); next != running_.rend(); ++next) {
    const Sequence& other = **next;
    if (other.admission <= sequence.compared_to) break;
    if (other.computed_tokens == other.work() || !other.uses_prefix_cache()) continue;
    if (other.priority() > sequence.priority()) continue;
    if (other.state->request.cache_salt != sequence.state->request.cache_salt) continue;
    const auto [end, other_end] = std::ranges::mismatch(sequence.tokens, other.tokens);
    const auto common = std::min(static_cast<std::size_t>(end - sequence.tokens.begin()), longest);
    const std::size_t of_text = std::min(common, other.text_end());
    const std::size_t shared = of_text / blocks_.block_size() * blocks_.block_size();
    if (shared <= std::max(sequence.shared_tokens, other.computed_tokens)) continue;
    if (blocks_.keeps_states() && !will_keep_state(**next, shared)) continue;
    sequence.ahead = *next;
    sequence.shared_tokens = shared;
  }
  sequence.compared_to = admissions_;
  return !sequence.ahead.expired();
}

// Asks a running sequence to save its state at `position`. Returns false if it is too late, because that
// position is already in flight.
bool Scheduler::will_keep_state(Sequence& running, std::size_t position) const {
  if (blocks_.awaits_save(running.id, position)) return true;
  if (position <= running.planned_tokens - running.granted) return false;
  running.left_at.push_back(position);
  return true;
}

// The sequence now owns the blocks of its stored prefix.
void Scheduler::note_restored(Sequence& sequence) {
  const StoredPrefixes::Restored restored = store_->leave(sequence.id);
  RequestTimes& times = sequence.state->times;
  times.restored_tokens += restored.tokens;
  times.restore_seconds += restored.seconds;
}

// The entries of the sequence's block tables that the ranks don't have yet: new blocks and, with the first
// chunk, cached blocks.
std::vector<BlockId> Scheduler::take_unsent_blocks(Sequence& sequence) const {
  std::vector<BlockId> unsent;
  for (std::size_t group = 0; group < blocks_.groups(); ++group) {
    const auto added = blocks_.table(sequence.id, group).subspan(sequence.sent_blocks);
    unsent.insert(unsent.end(), added.begin(), added.end());
  }
  sequence.sent_blocks = blocks_.table(sequence.id).size();
  return unsent;
}

// The sequence's state for a chunk with the positions `computed`, and the positions in the chunk after which
// copies of the state are saved.
ChunkState Scheduler::take_states(Sequence& sequence, Range computed) {
  const SnapshotPositions positions =
      snapshot_positions(computed, sequence.prompt_tokens(), sequence.left_at, blocks_.block_size());
  std::erase_if(sequence.left_at, [&](std::size_t position) { return position <= computed.end; });
  return {.slot = blocks_.state(sequence.id),
          .from = sequence.announced ? kNoSlot : blocks_.first_state(sequence.id),
          .saves = blocks_.take_saves(sequence.id, positions)};
}

}  // namespace tp
