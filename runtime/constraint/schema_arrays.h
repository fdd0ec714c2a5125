// The grammar of arrays.
#pragma once

#include "runtime/constraint/json_grammar.h"
#include "runtime/constraint/schema_document.h"

#include <functional>

namespace tp::constraint {

// What a subschema allows.
using SubschemaExpr = std::function<ExprId(const SchemaJson& schema, const SchemaPlace& place)>;

// Without `items`, there are none behind `prefixItems` unless minItems asks for them. Throws RequestError.
ExprId array_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place,
                  const SubschemaExpr& subschema);

}  // namespace tp::constraint
