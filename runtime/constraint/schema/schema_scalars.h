// Types of JSON values, and the grammar of numbers.
#pragma once

#include "runtime/constraint/schema/json_grammar.h"
#include "runtime/constraint/schema/schema_document.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tp::constraint {

// The types that a schema allows: those of `type`, else those that its other keywords are for, else all.
// "number" covers "integer". Throws RequestError.
std::vector<std::string> types_of(const SchemaJson& schema, const SchemaPlace& place);
bool has_type(const SchemaJson& value, const std::string& type);
// Whether two values are equal. The order of an object's members makes no difference.
bool is_same_value(const SchemaJson& a, const SchemaJson& b);
// The list in `type`, with the null that OpenAPI's `nullable` adds to it.
SchemaJson listed_types(const SchemaJson& schema);
// The values that a schema lists. Others are not allowed, and not all of these need be.
std::optional<SchemaJson> listed_values(const SchemaJson& schema);

// The value of a keyword that counts something.
std::uint32_t count_of(const SchemaJson& schema, const std::string& keyword, std::uint32_t missing,
                       const SchemaPlace& place);

// Throws RequestError.
ExprId number_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place, bool integer);

}  // namespace tp::constraint
