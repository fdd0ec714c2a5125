// The grammar of arrays.
#pragma once

#include "runtime/constraint/schema/json_grammar.h"
#include "runtime/constraint/schema/schema_document.h"

#include <functional>

namespace tp::constraint {

// Functions that translate a subschema.
struct Subschemas {
  std::function<ExprId(const SchemaJson& schema, const SchemaPlace& place)> expr;      // allowed values
  std::function<SchemaJson(const SchemaJson& schema, const SchemaPlace& place)> flat;  // no $ref or allOf
  std::function<SchemaJson(const SchemaJson& schema, const SchemaPlace& place)> negated;
};

// Without `items`, further items follow `prefixItems` only if minItems requires them. Items that `contains`
// requires come first. Throws RequestError.
ExprId array_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
                  const Subschemas& subschemas);

}  // namespace tp::constraint
