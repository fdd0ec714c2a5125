// The grammar of strings.
#pragma once

#include "runtime/constraint/grammar/regex_tree.h"
#include "runtime/constraint/schema/json_grammar.h"
#include "runtime/constraint/schema/schema_document.h"

#include <string>
#include <string_view>
#include <vector>

namespace tp::constraint {

// Strings with the schema's `pattern`, `format` and length, if given. A format that contradicts the other
// keywords is an annotation, and is ignored. Throws RequestError.
ExprId string_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place);

// Parses the `pattern` of a schema. Throws RequestError if it is not a regular expression.
RegexNode read_pattern(const SchemaJson& pattern, const SchemaPlace& place);

// Patterns for texts that match both patterns, that do not match a pattern, and that are not in a list.
std::string both_patterns(const std::string& a, const std::string& b);
std::string no_pattern(const std::string& pattern);
std::string other_than(const std::vector<std::string>& texts);

}  // namespace tp::constraint
