// Limits the work on patterns and schemas, because requests are not trusted.
#pragma once

#include <cstdint>

namespace tp::constraint {

// The work that all automata of a grammar may need together, in units of roughly 100 ns.
struct LanguageBudget {
  std::uint64_t left = 2'000'000;

  void charge(std::uint64_t units);  // throws RequestError if none are left
};

}  // namespace tp::constraint
