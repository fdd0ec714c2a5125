// Texts in which another text occurs or does not occur.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"

#include <string_view>

namespace tp::constraint {

struct TextSearch {
  ExprId until;    // any text up to and including the first occurrence
  ExprId without;  // any text without an occurrence
};

// `text`: UTF-8, not empty. Throws RequestError if the grammar becomes too large.
TextSearch text_search(ByteGrammar& grammar, std::string_view text);

}  // namespace tp::constraint
