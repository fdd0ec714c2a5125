#include "runtime/speculation/answer_history.h"

#include "tp/speculation.h"

#include <algorithm>
#include <utility>

namespace tp {

void AnswerHistory::add(std::span<const TokenId> text) {
  if (text.size() + 1 > max_of_each_) text = text.last(max_of_each_ - 1);
  if (text.empty() || waiting_tokens_ + text.size() > max_of_each_) return;
  waiting_.emplace_back(text.begin(), text.end());
  waiting_tokens_ += text.size();
}

void AnswerHistory::learn(std::size_t max) {
  try {
    while (max > 0 && !waiting_.empty()) {
      const std::vector<TokenId>& text = waiting_.front();
      if (learnt_of_first_ == 0) begin_text(text.size());
      Generation& younger = *generations_[0];
      const std::size_t end = std::min(text.size(), learnt_of_first_ + max);
      max -= end - learnt_of_first_;
      for (; learnt_of_first_ < end; ++learnt_of_first_) {
        younger.tokens.push_back(text[learnt_of_first_]);
        younger.automaton.push(text[learnt_of_first_]);
      }
      if (end < text.size()) return;
      younger.tokens.push_back(kEnd);
      younger.automaton.end_text();
      waiting_tokens_ -= text.size();
      waiting_.pop_front();
      learnt_of_first_ = 0;
    }
  } catch (...) {
    generations_[0].reset();  // it may contain a partly added token
    waiting_.clear();
    waiting_tokens_ = learnt_of_first_ = 0;
    throw;
  }
}

// Makes room in the younger generation, because a text must not span generations.
void AnswerHistory::begin_text(std::size_t size) {
  auto& [younger, older] = generations_;
  if (younger && younger->tokens.size() + size + 1 <= max_of_each_) return;
  older = std::move(younger);
  younger = std::make_unique<Generation>();
  younger->number = ++generations_so_far_;
}

std::size_t AnswerHistory::tokens() const {
  std::size_t tokens = 0;
  for (const auto& generation : generations_) tokens += generation ? generation->tokens.size() : 0;
  return tokens;
}

std::size_t AnswerHistory::bytes() const {
  std::size_t bytes = waiting_tokens_ * sizeof(TokenId);
  for (const auto& generation : generations_) {
    if (generation) bytes += generation->automaton.bytes() + generation->tokens.capacity() * sizeof(TokenId);
  }
  return bytes;
}

// The cursor's place in a generation; the beginning if the generation is newer than the cursor.
AnswerHistory::Cursor::Place AnswerHistory::place_in(const Cursor& cursor, const Generation& generation) {
  const auto found = std::ranges::find(cursor.places, generation.number, &Cursor::Place::generation);
  return found == cursor.places.end() ? Cursor::Place{.generation = generation.number} : *found;
}

void AnswerHistory::follow(Cursor& cursor, TokenId token) const {
  Cursor next;
  for (std::size_t i = 0; i < generations_.size(); ++i) {
    if (!generations_[i]) continue;
    next.places[i] = place_in(cursor, *generations_[i]);
    generations_[i]->automaton.follow(next.places[i].in_automaton, token);
  }
  cursor = next;
}

AnswerHistory::Match AnswerHistory::match_in(const Cursor::Place& place, const Generation& generation) {
  SuffixAutomaton::Match found = generation.automaton.match(place.in_automaton);
  if (found.length == 0) return {};
  const std::span<const TokenId> tokens(generation.tokens);
  // No token follows the match, or none so far.
  const bool ends = found.end == tokens.size() || tokens[found.end] == kEnd;
  if (ends) found = generation.automaton.continued_match(place.in_automaton);
  const auto behind = tokens.subspan(found.end);
  const auto next = behind.first(std::min(behind.size(), kMaxDraftTokens));
  const auto count = static_cast<std::size_t>(std::ranges::find(next, kEnd) - next.begin());
  return {found.length, next.first(count)};
}

AnswerHistory::Match AnswerHistory::match(const Cursor& cursor) const {
  Match best;
  for (const auto& generation : generations_) {
    if (!generation) continue;
    const Match match = match_in(place_in(cursor, *generation), *generation);
    if (match.length > best.length) best = match;
  }
  return best;
}

}  // namespace tp
