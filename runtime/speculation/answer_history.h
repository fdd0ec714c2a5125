// Remembers earlier answers as a source of drafts for later requests.
#pragma once

#include "runtime/speculation/suffix_automaton.h"
#include "tp/token_id.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace tp {

// Finds the longest end of a text in remembered texts, and the tokens that followed it. Takes constant time
// per token, averaged over all tokens.
//
// Texts are added to the younger of two generations. When it is full, it becomes the older generation, and
// the previous older generation is forgotten. So the most recent half is always available, and nothing is
// ever removed from an automaton.
class AnswerHistory {
 public:
  // `max`: number of tokens to remember, at least 2.
  explicit AnswerHistory(std::size_t max) : max_of_each_(max / 2) {}

  // Queues a text for learn(). Only the end of an overlong text is kept. Drops the text if the queue would
  // hold more tokens than a generation. Throws std::bad_alloc.
  void add(std::span<const TokenId> text);
  // Learns at most `max` further tokens of the queued texts, in order. The limit exists because everything
  // else waits meanwhile. If this throws std::bad_alloc, the younger generation and the queue are lost.
  void learn(std::size_t max);
  // Number of remembered tokens, without queued texts.
  std::size_t tokens() const;
  // Memory in use, and an upper bound for this many tokens: the largest measured value plus a margin.
  std::size_t bytes() const;
  static constexpr std::size_t bytes_of(std::size_t max) { return 200 * max; }

  // A growing text's current match in each generation.
  struct Cursor {
    struct Place {
      std::uint64_t generation = 0;
      SuffixAutomaton::Cursor in_automaton{};
    };
    std::array<Place, 2> places{};
  };
  void follow(Cursor& cursor, TokenId token) const;

  // The longest end of the followed text that has a continuation in the history, and this continuation, up to
  // kMaxDraftTokens tokens.
  struct Match {
    std::size_t length = 0;           // 0: no match
    std::span<const TokenId> next{};  // continuation, valid until learn()
  };
  Match match(const Cursor& cursor) const;

 private:
  // Follows every text.
  static constexpr TokenId kEnd = -1;

  struct Generation {
    std::uint64_t number = 0;
    SuffixAutomaton automaton{};
    std::vector<TokenId> tokens{};
  };

  void begin_text(std::size_t size);

  static Cursor::Place place_in(const Cursor& cursor, const Generation& generation);
  static Match match_in(const Cursor::Place& place, const Generation& generation);

  std::size_t max_of_each_;
  std::uint64_t generations_so_far_ = 0;
  std::array<std::unique_ptr<Generation>, 2> generations_{};  // younger generation first
  std::deque<std::vector<TokenId>> waiting_{};                // queued texts; the first may be partly learnt
  std::size_t learnt_of_first_ = 0;
  std::size_t waiting_tokens_ = 0;
};

}  // namespace tp
