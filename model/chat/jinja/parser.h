// Statements of a template, from tokens to a tree.
#pragma once

#include "model/chat/jinja/ast.h"

#include <string_view>

namespace tp::jinja {

// `source` is well-formed UTF-8. Throws SyntaxError for what is not Jinja, and for what is but chat templates
// have no use for: extends, include, import, block.
Body parse_template(std::string_view source);

}  // namespace tp::jinja
