// Grammars for the texts that match regular expressions.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"
#include "runtime/constraint/grammar/character_automaton.h"
#include "runtime/constraint/grammar/regex_tree.h"

#include <vector>

namespace tp::constraint {

// Adds the texts of a language whose number of characters is within `length`; never() if there are none.
// `character` adds one character of a set.
ExprId language_expr(ByteGrammar& grammar, const CharacterAutomaton& automaton, MatchLength length,
                     const CharacterExpr& character);

// Adds characters in UTF-8, and each set only once. The grammar must outlive the result.
CharacterExpr plain_characters(ByteGrammar& grammar);

// Adds the texts that an expression matches as a whole. Throws RequestError.
ExprId matching_text(ByteGrammar& grammar, const RegexNode& node);

}  // namespace tp::constraint
