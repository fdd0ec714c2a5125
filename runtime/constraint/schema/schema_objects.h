// The grammar of objects.
#pragma once

#include "runtime/constraint/schema/json_grammar.h"
#include "runtime/constraint/schema/schema_arrays.h"
#include "runtime/constraint/schema/schema_document.h"

namespace tp::constraint {

// Properties in the schema's order, then those that are only required, then others. Where there are
// `properties` or `patternProperties` but no `additionalProperties`, there are no others. No other name
// matches two patterns. Throws RequestError.
ExprId object_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
                   const Subschemas& subschemas);

}  // namespace tp::constraint
