#include "runtime/speculation/ngram_source.h"

#include <algorithm>
#include <utility>

namespace tp {
namespace {

// Number of tokens at the prompt's end to remember with an answer, because answers after equal prompt ends
// often begin alike. Must exceed the few tokens with which templates end a turn, because these predict
// nothing.
constexpr std::size_t kPromptTokens = 16;

// Number of answer tokens to learn before each step, which takes half a millisecond.
constexpr std::size_t kLearntAtOnce = 1024;

}  // namespace

std::vector<Draft> NgramSource::draft(std::span<const DraftQuery> queries) {
  if (history_) history_->learn(kLearntAtOnce);
  std::vector<Draft> drafts;
  for (const DraftQuery& query : queries) {
    Text& text = texts_[query.sequence];
    follow(text, query);
    const bool knows_all = text.automaton.size() == query.tokens.size();
    Draft& best = drafts.emplace_back();
    if (!knows_all) continue;
    best = draft(text, query);
    if (Draft other = draft_from_history(text, query);
        !other.chances.empty() && (best.chances.empty() || other.chances.front() > best.chances.front()))
      best = std::move(other);
  }
  return drafts;
}

// A request that hides its prompt from other requests does not share answers either. Otherwise other requests
// could notice a repeated answer by its speed.
bool NgramSource::uses_history(const DraftQuery& query) const {
  return history_ &&
         (query.request == nullptr || (query.request->cache_prompt && query.request->cache_salt.empty()));
}

void NgramSource::learn_from(const DraftQuery& text) {
  if (!uses_history(text) || text.tokens.size() <= text.prompt_tokens) return;
  history_->add(text.tokens.subspan(text.prompt_tokens - std::min(text.prompt_tokens, kPromptTokens)));
}

// Reads new tokens of the sequence, but not all of a long prompt at once, because all other sequences wait.
// Counts only matches in generated text: prompts do not show how the model repeats itself.
void NgramSource::follow(Text& text, const DraftQuery& query) {
  constexpr std::size_t kMaxNew = 4096;
  const std::size_t first = text.automaton.size();
  const std::size_t last = std::min(query.tokens.size(), first + kMaxNew);
  for (std::size_t i = first; i < last; ++i) {
    const auto [length, end] = text.automaton.match();
    if (i >= query.prompt_tokens && length > 0) {
      const bool came_again = query.tokens[end] == query.tokens[i];
      text.rates.add(length, came_again);
      rates_.add(length, came_again);
    }
    text.automaton.push(query.tokens[i]);
    if (uses_history(query)) follow_history(text, query, i);
  }
}

void NgramSource::follow_history(Text& text, const DraftQuery& query, std::size_t place) {
  if (place + kPromptTokens < query.prompt_tokens) return;
  const auto [length, next] = history_->match(text.in_history);
  if (place >= query.prompt_tokens && length > 0) {
    const bool came_again = next.front() == query.tokens[place];
    text.history_rates.add(length, came_again);
    history_rates_.add(length, came_again);
  }
  history_->follow(text.in_history, query.tokens[place]);
}

// Drafts the tokens that followed the match in the earlier answer, up to the answer's end.
Draft NgramSource::draft_from_history(const Text& text, const DraftQuery& query) const {
  Draft draft;
  if (!uses_history(query)) return draft;
  const auto [length, next] = history_->match(text.in_history);
  const auto tokens = next.first(std::min(next.size(), query.max_tokens));
  draft.tokens.assign(tokens.begin(), tokens.end());
  double chance = 1.0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    chance *= text.history_rates.rate(length + i, &history_rates_);
    draft.chances.push_back(chance);
  }
  return draft;
}

// Drafts the tokens that followed the match. At the end of the text, the draft repeats itself, because the
// text is periodic.
Draft NgramSource::draft(const Text& text, const DraftQuery& query) const {
  Draft draft;
  const auto [length, end] = text.automaton.match();
  if (length == 0) return draft;
  const std::size_t period = query.tokens.size() - end;
  draft.tokens.reserve(query.max_tokens);
  draft.chances.reserve(query.max_tokens);
  double chance = 1.0;
  for (std::size_t i = 0; i < query.max_tokens; ++i) {
    chance *= text.rates.rate(length + i, &rates_);
    draft.tokens.push_back(i < period ? query.tokens[end + i] : draft.tokens[i - period]);
    draft.chances.push_back(chance);
  }
  return draft;
}

}  // namespace tp
