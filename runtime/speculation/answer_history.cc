#include "runtime/speculation/answer_history.h"

#include "tp/speculation.h"

#include <algorithm>
#include <utility>

namespace tp {

void AnswerHistory::add(std::span<const TokenId> text) {
  auto& [younger, older] = generations_;
  if (text.size() + 1 > most_of_each_) text = text.last(most_of_each_ - 1);
  if (text.empty()) return;
  if (!younger || younger->tokens.size() + text.size() + 1 > most_of_each_) {
    older = std::move(younger);
    younger = std::make_unique<Generation>();
    younger->number = ++generations_so_far_;
  }
  try {
    for (const TokenId token : text) {
      younger->tokens.push_back(token);
      younger->automaton.push(token);
    }
    younger->tokens.push_back(kEnd);
    younger->automaton.end_text();
  } catch (...) {
    younger.reset();  // half of a token may be in it
    throw;
  }
}

std::size_t AnswerHistory::tokens() const {
  std::size_t tokens = 0;
  for (const auto& generation : generations_) tokens += generation ? generation->tokens.size() : 0;
  return tokens;
}

std::size_t AnswerHistory::bytes() const {
  std::size_t bytes = 0;
  for (const auto& generation : generations_) {
    if (generation) bytes += generation->automaton.bytes() + generation->tokens.capacity() * sizeof(TokenId);
  }
  return bytes;
}

// The beginning of a generation that has come since.
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
  if (tokens[found.end] == kEnd) found = generation.automaton.continued_match(place.in_automaton);
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
