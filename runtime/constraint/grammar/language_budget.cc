#include "runtime/constraint/grammar/language_budget.h"

#include "tp/internal/require.h"

namespace tp::constraint {

void LanguageBudget::charge(std::uint64_t units) {
  require<RequestError>(units <= left,
                        "the constraint takes too long: expected patterns, formats, lengths and lists that "
                        "can be combined with little work, found larger ones; simplify them");
  left -= units;
}

}  // namespace tp::constraint
