#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp {

// Finds the longest suffix of a growing text that has occurred before, in this text or in earlier texts. Also
// finds the longest suffix of another text in all of these. A token takes constant time, averaged over all
// tokens, apart from the number of different tokens that have followed a repeated text.
//
// The automaton has a state for every set of places at which substrings end. The link of the whole text's
// state leads to the longest suffix that also ends elsewhere.
class SuffixAutomaton {
 private:
  using StateIndex = std::uint32_t;
  static constexpr StateIndex kRoot = 0;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

 public:
  SuffixAutomaton();

  void push(TokenId token);
  // Begins another text. Skips one place after the current text.
  void end_text();
  // Number of tokens and text ends so far.
  std::size_t size() const { return size_; }
  // Memory in use.
  std::size_t bytes() const;

  // The longest suffix that has occurred before.
  struct Match {
    std::size_t length = 0;  // 0: even the last token is new
    std::size_t end = 0;     // end of an earlier occurrence: the last one at which this was the longest match
  };
  Match match() const { return match_; }

  // Another text's longest suffix that was found. A match stays valid when the automaton grows. It may then
  // miss longer matches until the other text continues like the added text.
  struct Cursor {
    StateIndex state = kRoot;
    std::uint32_t length = 0;
  };
  void follow(Cursor& cursor, TokenId token) const;
  Match match(const Cursor& cursor) const { return {cursor.length, states_[cursor.state].end}; }
  // The longest match after which a text continues. Takes longer than match().
  Match continued_match(const Cursor& cursor) const;

 private:
  struct State {
    std::uint32_t length = 0;  // length of the longest text
    StateIndex link = kNone;
    std::uint32_t end = 0;  // a place at which the texts end
    std::uint32_t first_edge = kNone;
  };
  // All edges are in one table, keyed by state and token. The edges of a state also form a list.
  struct Edge {
    StateIndex from = 0;
    TokenId token = 0;
    StateIndex to = 0;
    std::uint32_t next = kNone;  // next edge of the same state
  };

  StateIndex append_state();
  void push_known(StateIndex known, TokenId token);
  StateIndex link_of_whole(StateIndex before, TokenId token, StateIndex whole);
  StateIndex divide(StateIndex state, StateIndex before, TokenId token);

  std::size_t place_of(StateIndex from, TokenId token) const;
  Edge* find_edge(StateIndex from, TokenId token);
  StateIndex next_of(StateIndex from, TokenId token) const;
  void add_edge(StateIndex from, TokenId token, StateIndex to);
  void grow_table();

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> table_;  // indices of edges, with linear probing; at most half full
  StateIndex whole_ = kRoot;          // state of the whole current text
  std::size_t size_ = 0;
  Match match_;
};

}  // namespace tp
