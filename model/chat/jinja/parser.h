// Parses a template's statements from tokens to a tree.
#pragma once

#include "model/chat/jinja/ast.h"

#include <string_view>

namespace tp::jinja {

// `source` must be well-formed UTF-8. Throws SyntaxError for invalid Jinja, and for statements that chat
// templates do not need: extends, include, import, block.
Body parse_template(std::string_view source);

}  // namespace tp::jinja
