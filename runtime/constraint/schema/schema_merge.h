// Joins schemas that must hold together.
#pragma once

#include "runtime/constraint/schema/schema_document.h"

namespace tp::constraint {

// A schema for values that both schemas allow. Both are normalized(), without `$ref` and `allOf`. Subschemas
// that both have become an `allOf`. Throws RequestError for keywords that cannot be joined, and if the work
// exceeds the budget.
SchemaJson merged(const SchemaJson& a, const SchemaJson& b, const SchemaPlace& place, LanguageBudget& budget);

}  // namespace tp::constraint
