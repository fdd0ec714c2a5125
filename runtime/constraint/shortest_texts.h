// How far states are from an end of the text.
#pragma once

#include "runtime/constraint/grammar/state_machine.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace tp::constraint {

class ShortestTexts {
 public:
  // `machine` must outlive it.
  explicit ShortestTexts(StateMachine& machine);

  // Bytes of the shortest text with which the text can end from here. An estimate where rules are left
  // recursive.
  std::uint64_t after(StateId state);

 private:
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max() / 4;

  void measure_rules();
  // To the end of the item's rule.
  std::uint64_t in_rule(const Item& item) const;

  StateMachine& machine_;
  std::vector<std::uint64_t> places_;  // to the end of the rule, or of the repetition that is under way
  std::vector<std::uint64_t> rules_;
  std::vector<std::uint64_t> states_;  // as far as they are known
};

}  // namespace tp::constraint
