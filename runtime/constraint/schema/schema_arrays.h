// The grammar of arrays.
#pragma once

#include "runtime/constraint/schema/json_grammar.h"
#include "runtime/constraint/schema/schema_document.h"

#include <functional>

namespace tp::constraint {

// Functions that translate a subschema.
struct Subschemas {
  std::function<ExprId(const SchemaJson& schema, const SchemaPlace& place)> expr;  // what it allows
  std::function<SchemaJson(const SchemaJson& schema, const SchemaPlace& place)>
      flat;  // without $ref and allOf
  std::function<SchemaJson(const SchemaJson& schema, const SchemaPlace& place)> negated;
};

// Without `items`, there are none behind `prefixItems` unless minItems asks for them. Items that `contains`
// asks for come first. Throws RequestError.
ExprId array_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
                  const Subschemas& subschemas);

}  // namespace tp::constraint
