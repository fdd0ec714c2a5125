#include "runtime/constraint/grammar/language_budget.h"

#include "tp/internal/require.h"

namespace tp::constraint {

void LanguageBudget::charge(std::uint64_t units) {
  require<RequestError>(units <= left,
                        "the constraint takes too long: expected patterns, formats and lengths whose "
                        "intersections are small automata, found larger ones; simplify them");
  left -= units;
}

}  // namespace tp::constraint
