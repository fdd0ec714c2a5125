#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::constraint {

// A state of a constraint's automaton.
using StateId = std::uint32_t;

inline constexpr StateId kDead = 0xFFFFFFFF;  // no text continues from here

// The progress of a text.
struct Progress {
  StateId state = kDead;
  std::size_t tokens = 0;  // tokens generated so far
};

}  // namespace tp::constraint
