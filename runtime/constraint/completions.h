// Whether a text can be completed with the tokens that there are.
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

// A state of an automaton can always be completed by bytes. It can be by tokens if every byte of the grammar
// is a token that may be used, and every control token that the grammar names may be. Where some are not,
// tokens of several bytes that contain them must do, and a search finds whether they can. A token whose bytes
// are all tokens adds nothing to what can be said, so the search goes byte by byte as far as possible.
class Completions {
 public:
  // `usable`: the tokens that may be used. The arguments except that must outlive it.
  Completions(const ByteVocabulary& vocabulary, StateMachine& machine, const TokenMask& usable);

  // Whether every state can be completed, by any number of tokens for which there is text.
  bool is_certain() const { return is_certain_; }
  // Whether a text can be completed from here with at least `tokens` more tokens. The search is bounded:
  // false where it has found nothing.
  bool possible(StateId state, std::size_t tokens);

 private:
  struct Known {
    std::optional<std::size_t> possible{};    // with at least so many tokens
    std::optional<std::size_t> impossible{};  // with so many, and hence with more
  };
  class Search;

  StateMachine& machine_;
  std::optional<ShortestTexts> distances_;                        // once there is a search
  std::array<std::optional<std::uint8_t>, 256> byte_of_class_{};  // one that is a token
  TokenTrie others_;  // tokens with bytes that are no tokens themselves
  bool is_certain_ = true;
  std::map<StateId, Known> known_;
};

}  // namespace tp::constraint
