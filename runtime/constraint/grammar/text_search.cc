#include "runtime/constraint/grammar/text_search.h"

#include "model/tokenizer/text/utf8.h"
#include "runtime/constraint/grammar/code_points.h"
#include "tp/internal/require.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxSearched = 200;  // characters

// State after each character; all other characters lead to 0.
using Transitions = std::map<char32_t, std::size_t>;

std::u32string characters_of(std::string_view text) {
  std::u32string characters;
  for (const auto [character, bytes] : utf8::Characters(text)) characters += character;
  return characters;
}

// The automaton of Knuth, Morris and Pratt. A state is the number of characters of `text` that were just
// read. It continues like the longest shorter state that the same characters end with, except for the next
// character.
std::vector<Transitions> search_automaton(const std::u32string& text) {
  std::vector<Transitions> states = {{{text[0], 1}}};
  std::size_t shorter = 0;
  for (std::size_t state = 1; state < text.size(); ++state) {
    Transitions next = states[shorter];
    const auto found = next.find(text[state]);
    shorter = found == next.end() ? 0 : found->second;
    next[text[state]] = state + 1;
    states.push_back(std::move(next));
  }
  return states;
}

std::vector<RuleId> add_rules(ByteGrammar& grammar, std::size_t count) {
  std::vector<RuleId> rules(count);
  for (RuleId& rule : rules) rule = grammar.add_rule();
  return rules;
}

}  // namespace

TextSearch text_search(ByteGrammar& grammar, std::string_view text) {
  const std::u32string characters = characters_of(text);
  const std::size_t size = characters.size();
  require<RequestError>(size <= kMaxSearched,
                        "the grammar: expected a text of at most {} characters after `%until` or `%without`, "
                        "found {}; shorten it",
                        kMaxSearched, size);
  const std::vector<RuleId> until = add_rules(grammar, size);
  const std::vector<RuleId> without = add_rules(grammar, size);
  const std::vector<Transitions> states = search_automaton(characters);
  for (std::size_t state = 0; state < size; ++state) {
    CodePoints others = CodePoints::all();
    std::vector<ExprId> found;
    std::vector<ExprId> not_found = {grammar.empty()};
    for (const auto& [character, next] : states[state]) {
      others = others.without({{character, character}});
      std::string bytes;
      utf8::append(bytes, character);
      const ExprId one = grammar.text(bytes);
      found.push_back(next == size ? one : grammar.sequence({one, grammar.rule(until[next])}));
      if (next < size) not_found.push_back(grammar.sequence({one, grammar.rule(without[next])}));
    }
    const ExprId other = others.expr(grammar);
    found.push_back(grammar.sequence({other, grammar.rule(until.front())}));
    not_found.push_back(grammar.sequence({other, grammar.rule(without.front())}));
    grammar.define(until[state], grammar.choice(std::move(found)));
    grammar.define(without[state], grammar.choice(std::move(not_found)));
  }
  return {grammar.rule(until.front()), grammar.rule(without.front())};
}

}  // namespace tp::constraint
