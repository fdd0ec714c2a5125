// JSON Schema as a grammar.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"
#include "tp/constraint.h"

#include <string_view>

namespace tp::constraint {

// Adds the JSON that a JSON Schema (drafts 4 to 2020-12, OpenAPI) allows. Properties have the schema's order.
// Throws RequestError for unsupported keywords, with their JSON pointers.
ExprId json_schema_expr(ByteGrammar& grammar, std::string_view schema, JsonSpace space);

}  // namespace tp::constraint
