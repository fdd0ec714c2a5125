// Earlier answers, from which later requests take drafts.
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

// Finds in remembered texts what followed the last tokens of another one. A token takes constant time,
// averaged over all.
//
// There are two generations: texts are added to the younger one until it has no room; then it becomes the
// older one, and the one that was is forgotten. So the last half is always there, and nothing needs to be
// taken out of an automaton.
class AnswerHistory {
 public:
  // `most`: tokens that are remembered, more than 1.
  explicit AnswerHistory(std::size_t most) : most_of_each_(most / 2) {}

  // Of a text that is too long only the end is kept. It waits until learn() comes to it, unless as many
  // tokens as a generation has room for wait already. Throws std::bad_alloc.
  void add(std::span<const TokenId> text);
  // Takes so many more tokens of the texts that wait, in their order, as everything else waits meanwhile.
  // Throws std::bad_alloc, and the younger generation and the texts that wait are lost then.
  void learn(std::size_t most);
  // Without those that wait.
  std::size_t tokens() const;
  // Memory in use, and a bound of it for so many tokens: the largest that was measured, with some room.
  std::size_t bytes() const;
  static constexpr std::size_t bytes_of(std::size_t most) { return 200 * most; }

  // How far a growing text has been followed, and what was found of its end.
  struct Cursor {
    struct Place {
      std::uint64_t generation = 0;
      SuffixAutomaton::Cursor in_automaton{};
    };
    std::array<Place, 2> places{};
  };
  void follow(Cursor& cursor, TokenId token) const;

  // The longest end of the followed text behind which something is remembered, and that, up to the most that
  // a draft may have.
  struct Match {
    std::size_t length = 0;           // 0: there is none
    std::span<const TokenId> next{};  // valid until more is learnt
  };
  Match match(const Cursor& cursor) const;

 private:
  // Behind every text.
  static constexpr TokenId kEnd = -1;

  struct Generation {
    std::uint64_t number = 0;
    SuffixAutomaton automaton{};
    std::vector<TokenId> tokens{};
  };

  void begin_text(std::size_t size);

  static Cursor::Place place_in(const Cursor& cursor, const Generation& generation);
  static Match match_in(const Cursor::Place& place, const Generation& generation);

  std::size_t most_of_each_;
  std::uint64_t generations_so_far_ = 0;
  std::array<std::unique_ptr<Generation>, 2> generations_{};  // the younger one first
  std::deque<std::vector<TokenId>> waiting_{};                // of the first one, some may have been learnt
  std::size_t learnt_of_first_ = 0;
  std::size_t waiting_tokens_ = 0;
};

}  // namespace tp
