#include "runtime/speculation/model_source.h"

#include "parallel/machine/stopwatch.h"
#include "runtime/sampling/logit_ops.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

// Describes a sequence to the draft model's ranks, so that they draw its tokens like the model does.
// `position`: position of the first token that they compute.
SequenceStart start_of(const DraftQuery& query, std::size_t position) {
  SequenceStart start{.seed = query.seed, .sample = query.sample, .prompt_tokens = query.prompt_tokens};
  if (query.request != nullptr)
    start.sampling = query.request->sampling;
  else
    start.sampling.temperature = 0.0F;
  start.sampling.logprobs = 0;  // only the log-probability of the chosen token
  if (needs_history(start.sampling)) {
    const auto prefix = query.tokens.first(position);
    start.prefix.assign(prefix.begin(), prefix.end());
  }
  return start;
}

// How likely the target chooses a draft token, before calibration.
double probability_of(const Chosen& chosen) {
  if (chosen.confidence) return 1.0 / (1.0 + std::exp(-static_cast<double>(*chosen.confidence)));
  return std::exp(static_cast<double>(chosen.logprob));
}

}  // namespace

ModelSource::ModelSource(const DraftModelLimits& limits, Run run)
    : limits_(limits),
      run_(std::move(run)),
      blocks_(limits.cache_blocks, limits.cache.block_size, limits.cache.windows, hash_of_block, 0,
              limits.cache.owners) {}

// Returns the queries with only the tokens that the draft model has.
std::vector<DraftQuery> ModelSource::own_queries(std::span<const DraftQuery> queries) const {
  std::vector<DraftQuery> own(queries.begin(), queries.end());
  for (DraftQuery& query : own) {
    if (!limits_.reads_states) break;
    query.tokens = query.tokens.subspan(1);
    --query.prompt_tokens;
  }
  return own;
}

std::vector<Draft> ModelSource::draft(std::span<const DraftQuery> all) {
  ++turn_;
  const std::vector<DraftQuery> queries = own_queries(all);
  std::vector<Member> members;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const DraftQuery& query = queries[i];
    if (query.tokens.empty() || is_behind(query) || is_early(query)) continue;
    Text& text = follow(query, all[i].tokens.front());
    const std::size_t max = max_drafts(query);
    const bool follows = limits_.follows() && query.tokens.size() <= limits_.max_length;
    if ((max > 0 || follows) && !text.has_unknown) members.push_back({&query, &text, max, needed_by(query)});
  }
  const Stopwatch watch;
  catch_up(members);
  if (limits_.drafts_blocks() && !members.empty() && block_pays(members, watch.seconds())) {
    const Stopwatch pass;
    draft_block(members);
    pass_seconds_.add(pass.seconds());
  }
  while (!limits_.drafts_blocks() && !members.empty() && pays(members, watch.seconds())) {
    const Stopwatch pass;
    draft_next(members);
    pass_seconds_.add(pass.seconds());
  }
  std::vector<Draft> drafts;
  for (const DraftQuery& query : queries) {
    const auto found = texts_.find(query.sequence);
    const bool has_draft = query.max_tokens > 0 && found != texts_.end();
    drafts.push_back(has_draft ? found->second.draft : Draft());
  }
  return drafts;
}

void ModelSource::end(std::uint64_t sequence) {
  const auto found = texts_.find(sequence);
  if (found == texts_.end()) return;
  if (found->second.announced) ended_.push_back(sequence);  // follow() has reserved space for it
  texts_.erase(found);
  blocks_.end_sequence(sequence);
}

// Largest number of draft tokens for the sequence. The last draft token is not computed, so it may exceed
// max_length.
std::size_t ModelSource::max_drafts(const DraftQuery& query) const {
  const std::size_t size = query.tokens.size();
  if (limits_.drafts_blocks()) {
    if (size - 1 + limits_.block.size > limits_.max_length) return 0;  // all rows of a block are computed
    return std::min(query.max_tokens, limits_.block.size - (limits_.block.samples_from_anchor ? 0 : 1));
  }
  if (size > limits_.max_length) return 0;
  return std::min(query.max_tokens, limits_.max_length - size + 1);
}

// Whether more tokens of the sequence are already known, because its prompt is being computed again.
bool ModelSource::is_behind(const DraftQuery& query) const {
  const auto found = texts_.find(query.sequence);
  return found != texts_.end() && query.tokens.size() < found->second.seen;
}

// Whether the sequence is new and the target has computed nothing of it yet, because it found the beginning
// in its cache. Later, more of this beginning may be found in the draft model's cache.
bool ModelSource::is_early(const DraftQuery& query) const {
  const std::size_t needed = needed_by(query);
  return limits_.has_state && needed > 0 && !texts_.contains(query.sequence) &&
         !limits_.has_state(query.sequence, needed - 1);
}

// Begins the sequence if it is new, and records its new tokens.
ModelSource::Text& ModelSource::follow(const DraftQuery& query, TokenId first_token) {
  const auto found = texts_.find(query.sequence);
  if (found == texts_.end()) {
    ended_.reserve(ended_.size() + texts_.size() + 1);
    Text text;
    const bool shares = query.request == nullptr || query.request->cache_prompt;
    std::string salt = query.request == nullptr ? "" : query.request->cache_salt;
    // The model's states also depend on the first token, which the layer's sequences lack.
    if (limits_.reads_states) salt += fmt::format(":{}", first_token);
    if (shares)
      text.computed = text.complete = blocks_.begin_sequence(query.sequence, query.tokens, salt);
    else
      blocks_.begin_unshared_sequence(query.sequence);
    try {
      texts_.emplace(query.sequence, std::move(text));
    } catch (...) {
      blocks_.end_sequence(query.sequence);
      throw;
    }
  }
  Text& text = texts_.at(query.sequence);
  learn(text, query);
  for (const TokenId id : query.tokens.subspan(text.seen))
    text.has_unknown = text.has_unknown || static_cast<std::size_t>(id) >= limits_.vocab_size;
  text.seen = query.tokens.size();
  text.last_turn = turn_;
  return text;
}

// Compares draft tokens with the chosen tokens. Accepted draft tokens are in the cache, except the last of a
// draft.
void ModelSource::learn(Text& text, const DraftQuery& query) {
  const auto came = query.tokens.subspan(text.seen);
  const std::vector<TokenId>& drafted = text.draft.tokens;
  std::size_t right = 0;
  for (std::size_t i = 0; i < std::min(came.size(), drafted.size()) && right == i; ++i) {
    const bool is_right = drafted[i] == came[i];
    calibration_.add(text.probabilities[i], is_right);
    right += is_right ? 1 : 0;
  }
  if (!drafted.empty() && !limits_.follows()) text.computed += std::min(right, drafted.size() - 1);
  // The last token is always computed, because its logits are needed. Blocks begin with it.
  text.computed = std::min(text.computed, query.tokens.size() - 1);
  text.draft = Draft();
  text.probabilities.clear();
}

// Extends the sequence's tables. While the cache has no room, forgets the sequence with the oldest query.
// Returns false if all sequences belong to the current queries.
bool ModelSource::reserve(std::uint64_t sequence, std::size_t tokens) {
  std::vector<BlockId> new_blocks;
  while (!blocks_.try_reserve(sequence, tokens, new_blocks)) {
    const auto oldest =
        std::ranges::min_element(texts_, {}, [](const auto& entry) { return entry.second.last_turn; });
    if (oldest == texts_.end() || oldest->second.last_turn == turn_) return false;
    end(oldest->first);
  }
  return true;
}

std::vector<BlockId> ModelSource::take_unsent_blocks(const DraftQuery& query, Text& text) const {
  std::vector<BlockId> unsent;
  for (std::size_t group = 0; group < blocks_.groups(); ++group) {
    const auto added = blocks_.table(query.sequence, group).subspan(text.sent_blocks);
    unsent.insert(unsent.end(), added.begin(), added.end());
  }
  text.sent_blocks = blocks_.table(query.sequence).size();
  return unsent;
}

// Adds a chunk of a sequence, from the position `first` on, to a pass. The cache must have room for the
// chunk.
void ModelSource::add_chunk(Member& member, std::size_t first, std::span<const TokenId> tokens, bool chooses,
                            Forward& forward) {
  const DraftQuery& query = *member.query;
  SequenceChunk chunk{.sequence = query.sequence,
                      .start_position = first,
                      .tokens = static_cast<std::uint32_t>(tokens.size())};
  if (!member.text->announced) {
    chunk.start = start_of(query, first);
    chunk.start->bidirectional = limits_.drafts_blocks();
  }
  chunk.new_blocks = take_unsent_blocks(query, *member.text);
  member.text->announced = true;
  forward.tokens.insert(forward.tokens.end(), tokens.begin(), tokens.end());
  if (chooses) {
    const auto row = static_cast<std::uint32_t>(forward.tokens.size() - 1);
    forward.outputs.push_back({query.sequence, {row, 1}, want::Choose{}});
  }
  forward.chunks.push_back(std::move(chunk));
}

// Counts the tokens that a chunk computes from the target's states.
void ModelSource::note_states(Member& member, std::size_t first, std::size_t count) const {
  std::size_t& complete = member.text->complete;
  const std::size_t end = first + count;
  if (!limits_.has_state) complete = end;
  while (complete >= first && complete < end && limits_.has_state(member.query->sequence, complete))
    ++complete;
}

// Computes tokens that the cache lacks, as many as fit in a pass, beginning with the members that lack the
// fewest. Then keeps only members that lack no tokens and want drafts. They have their first draft token.
void ModelSource::catch_up(std::vector<Member>& members) {
  std::ranges::stable_sort(members, {}, &Member::missing);
  Forward forward;
  forward.gives_context = limits_.drafts_blocks();
  std::vector<Member*> choosing;
  for (Member& member : members) {
    const std::size_t room = limits_.step_tokens - forward.tokens.size();
    // Windowed groups have enough blocks for only one chunk.
    const std::size_t count = std::min({member.missing(), room, limits_.cache.chunk});
    const bool chooses = count == member.missing() && member.max > 0 && !limits_.drafts_blocks();
    const std::size_t first = member.text->computed;
    if (count == 0 || !reserve(member.query->sequence, first + count)) continue;
    add_chunk(member, first, member.query->tokens.subspan(first, count), chooses, forward);
    member.text->computed += count;
    note_states(member, first, count);
    if (chooses) choosing.push_back(&member);
  }
  constexpr std::size_t kFew = 4;  // tokens of a sequence that take as long as one token
  const bool is_short = !choosing.empty() && forward.tokens.size() <= kFew * choosing.size();
  const Stopwatch pass;
  if (!forward.tokens.empty()) run(std::move(forward), choosing);
  if (is_short) pass_seconds_.add(pass.seconds());
  for (const Member& member : members) {
    Text& text = *member.text;
    text.committed = std::max(text.committed, std::min(text.computed, text.complete));
    blocks_.commit(member.query->sequence, member.query->tokens, text.committed);
  }
  std::erase_if(members, [](const Member& member) { return member.max == 0 || member.missing() > 0; });
}

// Computes the last draft token of every member, and drafts another. Keeps members that may have further
// tokens.
void ModelSource::draft_next(std::vector<Member>& members) {
  Forward forward;
  forward.reads_own_states = limits_.reads_states;
  std::vector<Member*> choosing;
  for (Member& member : members) {
    const std::vector<TokenId>& drafted = member.text->draft.tokens;
    const std::size_t position = member.query->tokens.size() + drafted.size() - 1;
    const bool has_room = forward.tokens.size() < limits_.step_tokens;
    if (!has_room || !reserve(member.query->sequence, position + 1)) {
      member.max = 0;
      continue;
    }
    add_chunk(member, position, std::span(drafted).last(1), true, forward);
    choosing.push_back(&member);
  }
  if (!forward.tokens.empty()) run(std::move(forward), choosing);
  std::erase_if(members, [](const Member& member) { return member.max == 0; });
}

// Drafts all tokens of every member in one pass.
void ModelSource::draft_block(std::vector<Member>& members) {
  const auto& [size, mask_token, samples_from_anchor] = limits_.block;
  Forward forward;
  std::vector<Member*> choosing;
  for (Member& member : members) {
    const std::size_t position = member.query->tokens.size() - 1;
    const std::size_t row = forward.tokens.size();
    const bool has_room = row + size <= limits_.step_tokens;
    if (!has_room || !reserve(member.query->sequence, position + size)) continue;
    std::vector<TokenId> block(size, mask_token);
    block.front() = member.query->tokens.back();
    add_chunk(member, position, block, false, forward);
    const RowRange rows = {static_cast<std::uint32_t>(row + (samples_from_anchor ? 0 : 1)),
                           static_cast<std::uint32_t>(member.max)};
    forward.outputs.push_back({member.query->sequence, rows, want::Choose{}});
    choosing.push_back(&member);
  }
  if (!forward.tokens.empty()) run(std::move(forward), choosing);
}

// `choosing`: the members of the pass's outputs, in order.
void ModelSource::run(Forward forward, std::span<Member*> choosing) {
  forward.ended = ended_;
  const std::vector<Result> results = run_(std::move(forward));
  ended_.clear();
  for (std::size_t i = 0; i < choosing.size(); ++i) {
    Member& member = *choosing[i];
    for (const Chosen& chosen : std::get<std::vector<Chosen>>(results[i])) {
      // Rows that only the draft model has are not tokens of the target.
      if (chosen.error != ChoiceError::none || static_cast<std::size_t>(chosen.id) >= limits_.known_ids) {
        member.max = 0;
        break;
      }
      Draft& draft = member.text->draft;
      const double probability = probability_of(chosen);
      const double before = draft.chances.empty() ? 1.0 : draft.chances.back();
      draft.tokens.push_back(chosen.id);
      draft.chances.push_back(before * calibration_.chance(probability));
      member.text->probabilities.push_back(probability);
      --member.max;
    }
  }
}

// Whether a pass that drafts a block for each member is expected to raise the tokens per second.
bool ModelSource::block_pays(std::span<const Member> members, double seconds) const {
  const DraftQuery& any = *members.front().query;
  if (any.token_seconds == 0.0) return true;
  const auto count = static_cast<double>(members.size());
  double more = 0.0;
  double rows = 0.0;
  for (const Member& member : members) {
    double chance = 1.0;
    for (std::size_t i = 0; i < member.max; ++i) {
      chance *= calibration_.mean();
      more += chance;
      rows += chance > 0.1 ? 1.0 : 0.0;  // later ones are hardly verified
    }
  }
  const double plain = seconds + count * any.token_seconds;
  return (count + more) * plain > count * (plain + pass_seconds_.value() + rows * any.row_seconds);
}

// Whether drafting one more token for each member is expected to raise the tokens per second. `seconds`: time
// spent on drafting so far.
bool ModelSource::pays(std::span<const Member> members, double seconds) const {
  const DraftQuery& any = *members.front().query;
  if (any.token_seconds == 0.0) return true;
  double tokens = 0.0;
  double more = 0.0;
  for (const Member& member : members) {
    tokens += 1.0;
    for (const double chance : member.text->draft.chances) {
      tokens += chance;
      seconds += any.row_seconds;
    }
    more += member.text->draft.chances.back() * calibration_.mean();
  }
  const auto count = static_cast<double>(members.size());
  const double rate = tokens / (seconds + count * any.token_seconds);
  return more > rate * (pass_seconds_.value() + count * any.row_seconds);
}

}  // namespace tp
