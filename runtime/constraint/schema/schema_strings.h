// The grammar of strings.
#pragma once

#include "runtime/constraint/grammar/regex_tree.h"
#include "runtime/constraint/schema/json_grammar.h"
#include "runtime/constraint/schema/schema_document.h"

#include <string>
#include <string_view>
#include <vector>

namespace tp::constraint {

// Strings with a `pattern`, a `format` and a length, as far as each is given. A format that contradicts the
// rest is ignored: it is an annotation. Throws RequestError.
ExprId string_expr(JsonGrammar& json, const SchemaJson& schema, const SchemaPlace& place);

// The `pattern` of a schema. Throws RequestError unless it is a regular expression.
RegexNode read_pattern(const SchemaJson& pattern, const SchemaPlace& place);

// Patterns for texts that match both of two, that do not match one, and that are one of a list, or none.
std::string both_patterns(const std::string& a, const std::string& b);
std::string no_pattern(const std::string& pattern);
std::string other_than(const std::vector<std::string>& texts);

}  // namespace tp::constraint
