// Determines the tokens that may come next in the states of a grammar's automaton.
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

// Most tokens end in the rule in which they begin, whichever rule has called it. They are determined once per
// position. In each state, only the other tokens are followed, from the end of the rule. Results are kept, up
// to a limit.
class TokenMasks {
 public:
  // Both arguments must outlive this object.
  TokenMasks(const ByteVocabulary& vocabulary, StateMachine& machine)
      : vocabulary_(&vocabulary), machine_(&machine) {}

  // The tokens that can continue a text in this state.
  std::shared_ptr<const TokenMask> allowed(StateId state);
  // Whether allowed() already has the answer.
  bool knows(StateId state) const { return masks_.contains(state); }
  // Approximate memory in use.
  std::size_t bytes() const { return (masks_.size() + locals_.size()) * mask_bytes(); }

 private:
  std::size_t mask_bytes() const { return (vocabulary_->size() + 7) / 8; }

  // The tokens that a position allows, independently of its rule's caller.
  struct Local {
    TokenMask within;  // tokens that end in the position's rule, in a rule that it calls, or with the rule
    std::vector<std::uint32_t> rule_ends;  // inner trie nodes at which the rule can end
  };

  TokenMask find(StateId state);
  const Local& local_of(const Item& item);
  // The item must not have an origin.
  Local find_local(const Item& item);
  void add_after_rule(std::uint32_t node, StateId state, TokenMask& mask);
  std::uint32_t representative(const Item& item) const;
  // Bytes of the longest token that cannot reach the upper bound of the item's repetition; nothing if that
  // does not help.
  std::optional<std::uint32_t> bytes_below_bound(const Item& item) const;
  Local shortened(const Item& item, std::uint32_t safe);

  const ByteVocabulary* vocabulary_;
  StateMachine* machine_;
  std::unordered_map<std::uint64_t, Local> locals_;
  std::unordered_map<StateId, std::shared_ptr<const TokenMask>> masks_;
  std::vector<StateId> path_;  // states along a path of the trie, by depth
};

}  // namespace tp::constraint
