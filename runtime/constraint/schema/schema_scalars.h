// Types of JSON values, and the grammar of numbers.
#pragma once

#include "runtime/constraint/schema/json_grammar.h"
#include "runtime/constraint/schema/schema_document.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tp::constraint {

// The types that a schema allows: the types in `type`, or else the types to which its other keywords apply,
// or else all types. "number" includes "integer". Throws RequestError.
std::vector<std::string> types_of(const SchemaJson& schema, const SchemaPlace& place);
bool has_type(const SchemaJson& value, const std::string& type);
// The types in `type`, and null if OpenAPI's `nullable` adds it.
SchemaJson listed_types(const SchemaJson& schema);
// The values that a schema lists. Other values are not allowed, and other keywords may exclude listed values.
std::optional<SchemaJson> listed_values(const SchemaJson& schema);

// The value of a keyword that counts; `missing` if the keyword is missing.
std::uint32_t count_of(const SchemaJson& schema, const std::string& keyword, std::uint32_t missing,
                       const SchemaPlace& place);

// The numbers that a schema allows. Throws RequestError.
ExprId number_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place, bool integer);

}  // namespace tp::constraint
