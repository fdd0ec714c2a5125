// Which tokens may come next in the states of a grammar's automaton.
#pragma once

#include "runtime/constraint/byte_vocabulary.h"
#include "runtime/constraint/grammar/state_machine.h"
#include "tp/token_mask.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace tp::constraint {

// Most tokens end in the rule that they begin in, whatever has called it. Those are found once per position;
// in a state only the others are followed, from where the rule ends. What was found is kept, up to a limit.
class TokenMasks {
 public:
  // The arguments must outlive it.
  TokenMasks(const ByteVocabulary& vocabulary, StateMachine& machine)
      : vocabulary_(&vocabulary), machine_(&machine) {}

  // The tokens with which a text can go on in a state.
  std::shared_ptr<const TokenMask> allowed(StateId state);
  // Whether allowed() has the answer already.
  bool knows(StateId state) const { return masks_.contains(state); }

 private:
  // The tokens that a position allows by itself.
  struct Local {
    TokenMask within;                      // they end in its rule or in one that it calls, or with the rule
    std::vector<std::uint32_t> rule_ends;  // nodes of the trie below the root, where the rule can end
  };

  TokenMask find(StateId state);
  const Local& local_of(const Item& item);
  // Of an item without an origin.
  Local find_local(const Item& item);
  void add_after_rule(std::uint32_t node, StateId state, TokenMask& mask);
  std::uint32_t representative(const Item& item) const;
  // How long a token may be without reaching the upper bound of the repetition that the item is in; nothing
  // where that is no help.
  std::optional<std::uint32_t> bytes_below_bound(const Item& item) const;
  Local shortened(const Item& item, std::uint32_t safe);

  const ByteVocabulary* vocabulary_;
  StateMachine* machine_;
  std::unordered_map<std::uint64_t, Local> locals_;
  std::unordered_map<StateId, std::shared_ptr<const TokenMask>> masks_;
  std::vector<StateId> path_;  // states along a path of the trie, by depth
};

}  // namespace tp::constraint
