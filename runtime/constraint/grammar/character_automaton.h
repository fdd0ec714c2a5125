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

// Deterministic. Every state can be reached, and from every state the text can be completed.
struct CharacterAutomaton {
  struct Step {
    CodePoints characters;
    std::uint32_t target;
  };
  struct State {
    std::vector<Step> steps{};
    bool ends = false;  // whether the text may end here
  };

  std::vector<State> states;  // the first is the start; none if no text is in the language

  bool matches(std::string_view text) const;
};

struct TextPattern {
  RegexNode node;
  RegexMatch match = RegexMatch::search;
};

// The texts that all patterns match. Throws RequestError if the automaton becomes too large.
CharacterAutomaton intersection(const std::vector<TextPattern>& patterns, LanguageBudget& budget);

}  // namespace tp::constraint
