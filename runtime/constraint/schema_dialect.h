// Keywords that others can express: those of older drafts, of OpenAPI, and conditions.
#pragma once

#include "runtime/constraint/schema_document.h"

#include <cstddef>

namespace tp::constraint {

// An equivalent schema without annotations, and without `nullable`, `discriminator`, `additionalItems`,
// `dependencies`, `dependentRequired`, `dependentSchemas`, `if`, `not`, `$dynamicRef`, and bounds of draft 4.
// `depth`: how many negations it is in. Throws RequestError.
SchemaJson normalized(const SchemaJson& schema, const SchemaDocument& document, const SchemaPlace& place,
                      std::size_t depth = 0);

// `unevaluatedProperties` and `unevaluatedItems` of a schema that other schemas are joined to: there they are
// about this schema only.
SchemaJson closed_alone(SchemaJson schema);

}  // namespace tp::constraint
