// Schemas that must hold together, as one.
#pragma once

#include "runtime/constraint/schema/schema_document.h"

namespace tp::constraint {

// A schema for values that both allow. Both are normalized() and have no `$ref` or `allOf`; subschemas that
// both have become an `allOf`. Throws RequestError for keywords that cannot be joined.
SchemaJson merged(const SchemaJson& a, const SchemaJson& b, const SchemaPlace& place);

}  // namespace tp::constraint
