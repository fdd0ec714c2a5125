// Whether a grammar derives a text, byte by byte.
#pragma once

#include "runtime/constraint/constraint_compiler.h"
#include "runtime/constraint/grammar/automaton.h"
#include "runtime/constraint/grammar/state_machine.h"
#include "tests/error_of.h"
#include "tp/error.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace tp::constraint {

class TextMatcher {
 public:
  explicit TextMatcher(ByteGrammar grammar)
      : automaton_(std::make_unique<Automaton>(build_automaton(std::move(grammar)))), machine_(*automaton_) {}
  explicit TextMatcher(const Constraint& constraint) : TextMatcher(grammar_of(constraint)) {}

  bool matches(std::string_view text) {
    const StateId state = after(text);
    return state != kDead && machine_.ends(state);
  }
  // Whether a text can begin like this.
  bool begins(std::string_view text) { return after(text) != kDead; }
  const StateMachine& machine() const { return machine_; }

 private:
  StateId after(std::string_view text) {
    StateId state = machine_.start();
    for (const char byte : text) {
      state = machine_.next(state, static_cast<std::uint8_t>(byte));
      if (state == kDead) break;
    }
    return state;
  }

  std::unique_ptr<Automaton> automaton_;
  StateMachine machine_;
};

// Returns the error of a constraint, or "no error".
inline std::string error_of(const Constraint& constraint) {
  return test::error_or_none<RequestError>([&] { TextMatcher matcher(constraint); });
}

}  // namespace tp::constraint
