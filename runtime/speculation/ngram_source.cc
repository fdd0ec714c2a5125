#include "runtime/speculation/ngram_source.h"

#include <algorithm>

namespace tp {

std::vector<Draft> NgramSource::draft(std::span<const DraftQuery> queries) {
  std::vector<Draft> drafts;
  for (const DraftQuery& query : queries) {
    Text& text = texts_[query.sequence];
    follow(text, query);
    const bool knows_all = text.automaton.size() == query.tokens.size();
    drafts.push_back(knows_all ? draft(text, query) : Draft());
  }
  return drafts;
}

// Takes what is new of the sequence: not all of a long prompt at once, as every other sequence waits. Prompts
// say little about how the model repeats itself.
void NgramSource::follow(Text& text, const DraftQuery& query) {
  constexpr std::size_t kMostNew = 4096;
  const std::size_t first = text.automaton.size();
  const std::size_t last = std::min(query.tokens.size(), first + kMostNew);
  for (std::size_t i = first; i < last; ++i) {
    const auto [length, end] = text.automaton.match();
    if (i >= query.prompt_tokens && length > 0) {
      const bool came_again = query.tokens[end] == query.tokens[i];
      text.rates.add(length, came_again);
      rates_.add(length, came_again);
    }
    text.automaton.push(query.tokens[i]);
  }
}

// What followed the match. Where that reaches the end of the text, the draft itself follows: the text has a
// period.
Draft NgramSource::draft(const Text& text, const DraftQuery& query) const {
  Draft draft;
  const auto [length, end] = text.automaton.match();
  if (length == 0) return draft;
  const std::size_t period = query.tokens.size() - end;
  draft.tokens.reserve(query.most);
  draft.chances.reserve(query.most);
  double chance = 1.0;
  for (std::size_t i = 0; i < query.most; ++i) {
    chance *= text.rates.rate(length + i, &rates_);
    draft.tokens.push_back(i < period ? query.tokens[end + i] : draft.tokens[i - period]);
    draft.chances.push_back(chance);
  }
  return draft;
}

}  // namespace tp
