// Rewrites keywords that other keywords can express: keywords of older drafts and of OpenAPI, and conditions.
#pragma once

#include "runtime/constraint/schema/schema_document.h"

#include <cstdint>

namespace tp::constraint {

// `dependencies`, `dependentRequired`, `dependentSchemas`, `if`, `not` and `discriminator`.
enum class Conditions : std::uint8_t {
  written_out,  // As schemas that may allow fewer values. Do not negate or compare the result.
  left_out,     // The result may allow more values.
};

// A schema without conditions, annotations, `nullable`, `additionalItems`, `$dynamicRef`, and the bounds of
// draft 4. Throws RequestError.
SchemaJson normalized(const SchemaJson& schema, const SchemaDocument& document, const SchemaPlace& place,
                      Conditions conditions = Conditions::written_out);
bool has_conditions(const SchemaJson& schema);

// For a schema that will be joined with other schemas: limits `unevaluatedProperties` and `unevaluatedItems`
// to this schema.
SchemaJson closed_alone(SchemaJson schema);
// For a result of normalized() without conditions: limits the two keywords to this schema if no other keyword
// of `given` may evaluate something. Otherwise removes them.
SchemaJson closed_if_plain(SchemaJson normal, const SchemaJson& given);

}  // namespace tp::constraint
