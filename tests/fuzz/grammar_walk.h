#pragma once

#include "runtime/constraint/grammar/state_machine.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tp::constraint {

// Returns the text of a walk through the automaton. Each byte of `choices` chooses the next byte. Every
// reached state can be completed: some byte leads on, or the text may end.
inline std::string walk(const Automaton& automaton, std::string_view choices) {
  StateMachine machine(automaton);
  StateId state = machine.start();
  std::string text;
  for (std::size_t i = 0; i < choices.size() && i < 200; ++i) {
    StateId next = kDead;
    std::uint8_t byte = 0;
    for (unsigned n = 0; n < 256 && next == kDead; ++n) {
      byte = static_cast<std::uint8_t>(static_cast<std::uint8_t>(choices[i]) + n);
      next = machine.next(state, byte);
    }
    if (next == kDead) {
      if (!machine.ends(state)) std::abort();
      return text;
    }
    text += static_cast<char>(byte);
    state = next;
  }
  return text;
}

}  // namespace tp::constraint
