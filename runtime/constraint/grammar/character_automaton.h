// Regular languages of texts, as automata whose steps are whole characters.
#pragma once

#include "runtime/constraint/grammar/code_points.h"
#include "runtime/constraint/grammar/language_budget.h"
#include "runtime/constraint/grammar/regex_tree.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tp::constraint {

// Deterministic. Every state can be reached, and can reach an end.
struct CharacterAutomaton {
  struct Step {
    CodePoints characters;
    std::uint32_t target;
  };
  struct State {
    std::vector<Step> steps{};
    bool ends = false;  // the text may end here
  };

  std::vector<State> states;  // beginning with the start; empty if the language contains no text

  bool matches(std::string_view text) const;
};

struct TextPattern {
  RegexNode node;
  RegexMatch match = RegexMatch::search;
};

// The texts that match all patterns. Throws RequestError if the automaton becomes too large.
CharacterAutomaton intersection(const std::vector<TextPattern>& patterns, LanguageBudget& budget);

}  // namespace tp::constraint
