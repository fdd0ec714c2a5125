#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tp {

// Finds in a growing text the longest suffix that has occurred before. A token takes constant time, averaged
// over all, apart from the number of different tokens that have followed a repeated text.
//
// The automaton has a state for every set of places at which substrings end. The link of the state of the
// whole text leads to its longest suffix that also ends elsewhere.
class SuffixAutomaton {
 public:
  SuffixAutomaton();

  void push(TokenId token);
  // Tokens so far.
  std::size_t size() const { return size_; }

  // The longest suffix that has occurred before.
  struct Match {
    std::size_t length = 0;  // 0: not even the last token has
    std::size_t end = 0;     // of an earlier occurrence, the last one at which this was the longest match
  };
  Match match() const { return match_; }

 private:
  using StateIndex = std::uint32_t;
  static constexpr StateIndex kRoot = 0;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

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
  StateIndex link_of_whole(StateIndex before, TokenId token, StateIndex whole);
  StateIndex divide(StateIndex state, StateIndex before, TokenId token);

  std::size_t place_of(StateIndex from, TokenId token) const;
  Edge* find_edge(StateIndex from, TokenId token);
  void add_edge(StateIndex from, TokenId token, StateIndex to);
  void grow_table();

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> table_;  // of edges, with linear probing; at most half full
  StateIndex whole_ = kRoot;
  std::size_t size_ = 0;
  Match match_;
};

}  // namespace tp
