// Finds the expressions of a grammar that derive the empty text, or any text at all.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"

#include <vector>

namespace tp::constraint {

// [exprs]: whether the expression derives the empty text.
std::vector<bool> nullable_exprs(const ByteGrammar& grammar);

// [exprs]: whether the expression derives any text.
std::vector<bool> productive_exprs(const ByteGrammar& grammar);

// Rewrites bounded repetitions whose part derives the empty text, so that the part does not: empty parts
// could be counted any number of times. The grammar derives the same texts as before. Throws RequestError if
// rules refer to each other too deeply.
void normalize_repeats(ByteGrammar& grammar);

}  // namespace tp::constraint
