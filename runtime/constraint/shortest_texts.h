// Measures how far states are from an end of the text.
#pragma once

#include "runtime/constraint/grammar/state_machine.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace tp::constraint {

class ShortestTexts {
 public:
  // `machine` must outlive this object.
  explicit ShortestTexts(StateMachine& machine);

  // Bytes of the shortest text from here to an end. An estimate for left-recursive rules.
  std::uint64_t after(StateId state);

 private:
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max() / 4;
  static constexpr std::uint64_t kNew = kUnknown + 1;  // for a state that is not measured yet

  void measure_rules();
  // The shortest text after a state, if the states after its rules are measured.
  std::uint64_t measured(StateId state);
  // Bytes to the end of the item's rule.
  std::uint64_t in_rule(const Item& item) const;

  StateMachine& machine_;
  std::vector<std::uint64_t> places_;  // bytes to the end of the rule, or of the current repetition
  std::vector<std::uint64_t> rules_;
  std::vector<std::uint64_t> states_;  // bytes to the end of the text, if known
};

}  // namespace tp::constraint
