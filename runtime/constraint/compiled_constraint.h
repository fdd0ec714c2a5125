// A constraint in the form that generates masks. Compiled once for all requests that use it.
#pragma once

#include "runtime/constraint/byte_vocabulary.h"
#include "runtime/constraint/forced_tokens.h"
#include "runtime/constraint/grammar/automaton.h"
#include "runtime/constraint/grammar/byte_grammar.h"
#include "runtime/constraint/grammar/state_machine.h"
#include "runtime/constraint/token_masks.h"

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace tp::constraint {

// The state machine grows while it is used: hold `mutex` to use `machine`, `masks` or `forced`.
struct CompiledConstraint {
  // Throws RequestError if the grammar derives no text, or is too large.
  CompiledConstraint(std::shared_ptr<const ByteVocabulary> bytes_of_tokens, ByteGrammar grammar)
      : vocabulary(std::move(bytes_of_tokens)),
        automaton(build_automaton(std::move(grammar))),
        machine(automaton),
        masks(*vocabulary, machine),
        forced(*vocabulary, machine) {}
  CompiledConstraint(const CompiledConstraint&) = delete;
  CompiledConstraint& operator=(const CompiledConstraint&) = delete;

  // Approximate memory in use.
  std::size_t bytes() const { return automaton_bytes + machine.bytes() + masks.bytes(); }

  const std::shared_ptr<const ByteVocabulary> vocabulary;
  const Automaton automaton;
  const std::size_t automaton_bytes = bytes_of(automaton);
  std::mutex mutex;
  StateMachine machine;
  TokenMasks masks;
  ForcedTokens forced;
};

}  // namespace tp::constraint
