// Decides whether schemas exclude each other.
#pragma once

#include "runtime/constraint/schema/schema_document.h"

#include <vector>

namespace tp::constraint {

// `oneOf` is equivalent to `anyOf` if no value is allowed by two of its branches. Throws RequestError if
// types, values, bounds and required properties do not show this, or if the comparison exceeds the budget.
void require_disjoint(const std::vector<SchemaJson>& branches, const SchemaPlace& place,
                      LanguageBudget& budget);

}  // namespace tp::constraint
