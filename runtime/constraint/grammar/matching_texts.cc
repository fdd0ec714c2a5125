#include "runtime/constraint/grammar/matching_texts.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tp::constraint {

ExprId language_expr(ByteGrammar& grammar, const CharacterAutomaton& automaton, MatchLength length,
                     const CharacterExpr& character) {
  std::vector<CountedSteps::State> states;
  for (const CharacterAutomaton::State& state : automaton.states) {
    CountedSteps::State& added = states.emplace_back(CountedSteps::State{.ends = state.ends});
    for (const CharacterAutomaton::Step& step : state.steps)
      added.steps.push_back({character(step.characters), step.target});
  }
  return grammar.counted(
      {std::move(states), static_cast<std::uint32_t>(length.min), static_cast<std::uint32_t>(length.max)});
}

CharacterExpr plain_characters(ByteGrammar& grammar) {
  using Known = std::map<std::vector<std::pair<char32_t, char32_t>>, ExprId>;
  return [&grammar, known = std::make_shared<Known>()](const CodePoints& set) {
    const auto [found, is_new] = known->try_emplace(set.ranges(), 0);
    if (is_new) found->second = set.expr(grammar);
    return found->second;
  };
}

ExprId matching_text(ByteGrammar& grammar, const RegexNode& node) {
  const CharacterExpr character = plain_characters(grammar);
  if (is_plain(node)) return regex_expr(grammar, node, RegexMatch::whole, character);
  return language_expr(grammar, intersection({{node, RegexMatch::whole}}, grammar.budget()), {0, kUnbounded},
                       character);
}

}  // namespace tp::constraint
