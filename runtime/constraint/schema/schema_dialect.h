// Keywords that others can express: those of older drafts, of OpenAPI, and conditions.
#pragma once

#include "runtime/constraint/schema/schema_document.h"

#include <cstdint>

namespace tp::constraint {

// `dependencies`, `dependentRequired`, `dependentSchemas`, `if`, `not` and `discriminator`.
enum class Conditions : std::uint8_t {
  written_out,  // By schemas that may allow fewer values: a negation or comparison of the result is wrong.
  left_out,     // The result may allow more values.
};

// A schema without conditions, annotations, `nullable`, `additionalItems`, `$dynamicRef`, and bounds of
// draft 4. Throws RequestError.
SchemaJson normalized(const SchemaJson& schema, const SchemaDocument& document, const SchemaPlace& place,
                      Conditions conditions = Conditions::written_out);
bool has_conditions(const SchemaJson& schema);

// `unevaluatedProperties` and `unevaluatedItems` of a schema that other schemas are joined to: there they are
// about this schema only.
SchemaJson closed_alone(SchemaJson schema);
// The result of normalized() without conditions: without the two keywords, too, where others of `given` may
// evaluate something.
SchemaJson closed_if_plain(SchemaJson normal, const SchemaJson& given);

}  // namespace tp::constraint
