// Texts in which another text occurs, or does not.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"

#include <string_view>

namespace tp::constraint {

struct TextSearch {
  ExprId until;    // any text up to the first time that the other one occurs, and it
  ExprId without;  // any text in which it does not occur
};

// `text`: UTF-8, not empty. Throws RequestError if the grammar becomes too large.
TextSearch text_search(ByteGrammar& grammar, std::string_view text);

}  // namespace tp::constraint
