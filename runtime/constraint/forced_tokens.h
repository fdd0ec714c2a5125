// Finds stretches of text in which a grammar leaves no choice.
#pragma once

#include "runtime/constraint/byte_vocabulary.h"
#include "runtime/constraint/grammar/state_machine.h"
#include "tp/token_id.h"

#include <unordered_map>
#include <vector>

namespace tp::constraint {

class ForcedTokens {
 public:
  // Both arguments must outlive this object.
  ForcedTokens(const ByteVocabulary& vocabulary, StateMachine& machine)
      : vocabulary_(&vocabulary), machine_(&machine) {}

  // The tokenizer's tokens for the bytes that must come next. If more text follows, the last token is left
  // out, because the tokenizer might join it with the following text.
  const std::vector<TokenId>& after(StateId state);

 private:
  std::vector<TokenId> find(StateId state) const;

  const ByteVocabulary* vocabulary_;
  StateMachine* machine_;
  std::unordered_map<StateId, std::vector<TokenId>> known_;
};

}  // namespace tp::constraint
