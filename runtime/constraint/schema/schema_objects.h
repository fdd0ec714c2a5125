// The grammar of objects.
#pragma once

#include "runtime/constraint/schema/json_grammar.h"
#include "runtime/constraint/schema/schema_arrays.h"
#include "runtime/constraint/schema/schema_document.h"

namespace tp::constraint {

// Members are the properties in the schema's order, then names that are only required, then other names.
// Other names match at most one pattern. If the schema has `properties` or `patternProperties` but no
// `additionalProperties`, other names must match a pattern. Throws RequestError.
ExprId object_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
                   const Subschemas& subschemas);

}  // namespace tp::constraint
