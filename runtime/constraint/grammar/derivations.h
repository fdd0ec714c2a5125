// Which expressions of a grammar derive the empty text, or anything at all.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"

#include <vector>

namespace tp::constraint {

// For every expression, whether it derives the empty text.
std::vector<bool> nullable_exprs(const ByteGrammar& grammar);

// For every expression, whether it derives any text.
std::vector<bool> productive_exprs(const ByteGrammar& grammar);

// Rewrites repetitions with bounds whose part derives the empty text, so that none does: an empty part would
// count at will. What the grammar derives remains. Throws RequestError if rules refer to each other too
// deeply.
void normalize_repeats(ByteGrammar& grammar);

}  // namespace tp::constraint
