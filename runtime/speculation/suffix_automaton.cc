#include "runtime/speculation/suffix_automaton.h"

namespace tp {

SuffixAutomaton::SuffixAutomaton() : states_(1), table_(64, kNone) {}

void SuffixAutomaton::push(TokenId token) {
  const StateIndex before = whole_;
  if (const StateIndex known = next_of(before, token); known != kNone) return push_known(known, token);
  whole_ = append_state();
  states_[whole_].length = states_[before].length + 1;
  states_[whole_].end = static_cast<std::uint32_t>(++size_);
  const StateIndex link = link_of_whole(before, token, whole_);
  states_[whole_].link = link;
  match_ = {states_[link].length, states_[link].end};
  states_[link].end = static_cast<std::uint32_t>(size_);
}

// Handles a token after which the whole current text has occurred in an earlier text.
void SuffixAutomaton::push_known(StateIndex known, TokenId token) {
  const bool is_whole = states_[known].length == states_[whole_].length + 1;
  whole_ = is_whole ? known : divide(known, whole_, token);
  match_ = {states_[whole_].length, states_[whole_].end};
  states_[whole_].end = static_cast<std::uint32_t>(++size_);
}

void SuffixAutomaton::end_text() {
  whole_ = kRoot;
  ++size_;
  match_ = {};
}

void SuffixAutomaton::follow(Cursor& cursor, TokenId token) const {
  // States may have been divided since the last call, which moved their shorter texts to the state of the
  // link.
  for (StateIndex link = states_[cursor.state].link; link != kNone && cursor.length <= states_[link].length;
       link = states_[link].link)
    cursor.state = link;
  StateIndex next = next_of(cursor.state, token);
  while (next == kNone && cursor.state != kRoot) {
    cursor.state = states_[cursor.state].link;
    cursor.length = states_[cursor.state].length;
    next = next_of(cursor.state, token);
  }
  if (next != kNone) cursor = {next, cursor.length + 1};
}

SuffixAutomaton::Match SuffixAutomaton::continued_match(const Cursor& cursor) const {
  StateIndex state = cursor.state;
  while (state != kRoot && states_[state].first_edge == kNone) state = states_[state].link;
  if (state == kRoot) return {};
  const Edge& next = edges_[states_[state].first_edge];
  return {state == cursor.state ? cursor.length : states_[state].length, states_[next.to].end - 1};
}

// Adds the edges to the state of the whole text, and returns the state of the longest suffix that has
// occurred before.
SuffixAutomaton::StateIndex SuffixAutomaton::link_of_whole(StateIndex before, TokenId token,
                                                           StateIndex whole) {
  while (before != kNone && find_edge(before, token) == nullptr) {
    add_edge(before, token, whole);
    before = states_[before].link;
  }
  if (before == kNone) return kRoot;
  const StateIndex found = find_edge(before, token)->to;
  const bool is_suffix = states_[found].length == states_[before].length + 1;
  return is_suffix ? found : divide(found, before, token);
}

// Splits a state: its texts up to the length of `before` plus the token now also end at another place, and
// get a state of their own.
SuffixAutomaton::StateIndex SuffixAutomaton::divide(StateIndex state, StateIndex before, TokenId token) {
  const StateIndex shorter = append_state();
  states_[shorter].length = states_[before].length + 1;
  states_[shorter].link = states_[state].link;
  states_[shorter].end = states_[state].end;
  for (std::uint32_t i = states_[state].first_edge; i != kNone; i = edges_[i].next) {
    const Edge edge = edges_[i];
    add_edge(shorter, edge.token, edge.to);
  }
  states_[state].link = shorter;
  for (; before != kNone; before = states_[before].link) {
    Edge* const edge = find_edge(before, token);
    if (edge == nullptr || edge->to != state) break;
    edge->to = shorter;
  }
  return shorter;
}

SuffixAutomaton::StateIndex SuffixAutomaton::append_state() {
  states_.emplace_back();
  return static_cast<StateIndex>(states_.size() - 1);
}

std::size_t SuffixAutomaton::bytes() const {
  return states_.capacity() * sizeof(State) + edges_.capacity() * sizeof(Edge) +
         table_.capacity() * sizeof(std::uint32_t);
}

// Index of the edge in the table, or of the place at which to insert it.
std::size_t SuffixAutomaton::place_of(StateIndex from, TokenId token) const {
  const std::size_t mask = table_.size() - 1;
  std::uint64_t hash = (std::uint64_t{from} << 32 | static_cast<std::uint32_t>(token)) * 0x9E3779B97F4A7C15U;
  hash ^= hash >> 32;
  std::size_t place = hash & mask;
  while (table_[place] != kNone) {
    const Edge& edge = edges_[table_[place]];
    if (edge.from == from && edge.token == token) break;
    place = (place + 1) & mask;
  }
  return place;
}

SuffixAutomaton::Edge* SuffixAutomaton::find_edge(StateIndex from, TokenId token) {
  const std::uint32_t index = table_[place_of(from, token)];
  return index == kNone ? nullptr : &edges_[index];
}

SuffixAutomaton::StateIndex SuffixAutomaton::next_of(StateIndex from, TokenId token) const {
  const std::uint32_t index = table_[place_of(from, token)];
  return index == kNone ? kNone : edges_[index].to;
}

void SuffixAutomaton::add_edge(StateIndex from, TokenId token, StateIndex to) {
  if (2 * (edges_.size() + 1) > table_.size()) grow_table();
  table_[place_of(from, token)] = static_cast<std::uint32_t>(edges_.size());
  edges_.push_back({from, token, to, states_[from].first_edge});
  states_[from].first_edge = static_cast<std::uint32_t>(edges_.size() - 1);
}

void SuffixAutomaton::grow_table() {
  table_.assign(2 * table_.size(), kNone);
  for (std::size_t i = 0; i < edges_.size(); ++i)
    table_[place_of(edges_[i].from, edges_[i].token)] = static_cast<std::uint32_t>(i);
}

}  // namespace tp
