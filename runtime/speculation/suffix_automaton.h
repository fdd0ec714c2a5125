#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp {

// Finds in a growing text the longest suffix that has occurred before, in it or in the texts before it; and
// in all of these the longest suffix of another text. A token takes constant time, averaged over all, apart
// from the number of different tokens that have followed a repeated text.
//
// The automaton has a state for every set of places at which substrings end. The link of the state of the
// whole text leads to its longest suffix that also ends elsewhere.
class SuffixAutomaton {
 private:
  using StateIndex = std::uint32_t;
  static constexpr StateIndex kRoot = 0;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

 public:
  SuffixAutomaton();

  void push(TokenId token);
  // Begins another text. The place behind this one is left out.
  void end_text();
  // Tokens and ends of texts so far.
  std::size_t size() const { return size_; }
  // Of memory.
  std::size_t bytes() const;

  // The longest suffix that has occurred before.
  struct Match {
    std::size_t length = 0;  // 0: not even the last token has
    std::size_t end = 0;     // of an earlier occurrence, the last one at which this was the longest match
  };
  Match match() const { return match_; }

  // Another text's longest suffix that has been found. Stays right when the automaton grows, but then need
  // not be the longest one until the text goes on as what has been added does.
  struct Cursor {
    StateIndex state = kRoot;
    std::uint32_t length = 0;
  };
  void follow(Cursor& cursor, TokenId token) const;
  Match match(const Cursor& cursor) const { return {cursor.length, states_[cursor.state].end}; }
  // The longest one behind which a text goes on. Takes longer.
  Match continued_match(const Cursor& cursor) const;

 private:
  struct State {
    std::uint32_t length = 0;  // of its longest text
    StateIndex link = kNone;
    std::uint32_t end = 0;  // a place at which its texts end
    std::uint32_t first_edge = kNone;
  };
  // All edges are in one table, keyed by state and token; those of a state are a list, too.
  struct Edge {
    StateIndex from = 0;
    TokenId token = 0;
    StateIndex to = 0;
    std::uint32_t next = kNone;  // of the same state
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
  std::vector<std::uint32_t> table_;  // of edges, with linear probing; at most half full
  StateIndex whole_ = kRoot;          // of the last text
  std::size_t size_ = 0;
  Match match_;
};

}  // namespace tp
