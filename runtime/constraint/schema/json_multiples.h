// Multiples of a number as a grammar.
#pragma once

#include "runtime/constraint/schema/json_numbers.h"

#include <optional>

namespace tp::constraint {

// The multiples of `step`, which must be greater than 0, between two bounds, without exponents. A missing
// bound becomes a bound of at most 15 digits, because most programs cannot represent larger numbers exactly.
// Returns nothing if the automaton would be too large: it has a state for each remainder and digit.
std::optional<ExprId> multiples(ByteGrammar& grammar, const Decimal& step, std::optional<Bound> least,
                                std::optional<Bound> greatest, bool integer);

}  // namespace tp::constraint
