// Stretches of a text that a grammar leaves no choice about.
#pragma once

#include "runtime/constraint/byte_vocabulary.h"
#include "runtime/constraint/grammar/state_machine.h"
#include "tp/token_id.h"

#include <unordered_map>
#include <vector>

namespace tp::constraint {

class ForcedTokens {
 public:
  // The arguments must outlive it.
  ForcedTokens(const ByteVocabulary& vocabulary, StateMachine& machine)
      : vocabulary_(&vocabulary), machine_(&machine) {}

  // The tokens that the tokenizer has for the bytes that must come next. The last one is left out where more
  // text follows, which it might be joined with.
  const std::vector<TokenId>& after(StateId state);

 private:
  std::vector<TokenId> find(StateId state) const;

  const ByteVocabulary* vocabulary_;
  StateMachine* machine_;
  std::unordered_map<StateId, std::vector<TokenId>> known_;
};

}  // namespace tp::constraint
