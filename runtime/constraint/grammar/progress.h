#pragma once

#include <cstddef>
#include <cstdint>

namespace tp::constraint {

// A state of a constraint's automaton.
using StateId = std::uint32_t;

inline constexpr StateId kDead = 0xFFFFFFFF;  // no text goes on from here

// How far a text has come.
struct Progress {
  StateId state = kDead;
  std::size_t tokens = 0;  // generated so far
};

}  // namespace tp::constraint
