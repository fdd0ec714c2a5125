// Decides whether usable tokens can complete a text.
#pragma once

#include "runtime/constraint/byte_vocabulary.h"
#include "runtime/constraint/grammar/state_machine.h"
#include "runtime/constraint/shortest_texts.h"
#include "runtime/constraint/token_trie.h"
#include "tp/token_mask.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace tp::constraint {

// Bytes can always complete a state of an automaton. Tokens can do so, too, if every byte of the grammar is a
// usable token, and every control token in the grammar is usable. Otherwise tokens of several bytes must
// supply the missing bytes, and a search finds out whether they can. A token whose bytes are all usable
// tokens adds no further text, so the search advances by single bytes where possible.
class Completions {
 public:
  // `usable`: tokens that may be used. The other arguments must outlive this object.
  Completions(const ByteVocabulary& vocabulary, StateMachine& machine, const TokenMask& usable);

  // Whether tokens can generate every text of the grammar, so that every state can be completed.
  bool is_certain() const { return is_certain_; }
  // Whether a text can be completed from here with at least `tokens` more tokens. The search is bounded, and
  // returns false if it has found nothing by then. Throws RequestError if the machine's limit of work is
  // reached.
  bool possible(StateId state, std::size_t tokens);

 private:
  struct Known {
    std::optional<std::size_t> possible{};    // with at least this many tokens
    std::optional<std::size_t> impossible{};  // with this many tokens, and therefore with more
  };
  class Search;

  StateMachine& machine_;
  std::optional<ShortestTexts> distances_;                        // set by the first search
  std::array<std::optional<std::uint8_t>, 256> byte_of_class_{};  // a byte that is a usable token
  TokenTrie others_;  // tokens with bytes that are not usable tokens themselves
  bool is_certain_ = true;
  std::map<StateId, Known> known_;
};

}  // namespace tp::constraint
