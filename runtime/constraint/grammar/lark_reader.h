// Grammars in the notation of Lark, a parser generator for Python:
//
//   start: item ("," item)*                 // rules have small letters
//   item: NAME "=" /[0-9]+/ -> assignment   // literals, regular expressions; aliases have no effect
//   NAME: LETTER~1..8                       // terminals have capital letters
//   %import common.LETTER
//
// The grammar describes texts without a lexer: a terminal derives each text of its pattern, and terminals
// have no order of precedence. A dot matches all characters except \n, as in Python.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"
#include "runtime/constraint/grammar/regex_tree.h"

#include <string_view>

namespace tp::constraint {

// Adds the texts that the rule `start` derives. `character` adds one character of a set, in any notation.
// Unsupported are %ignore, %declare, %override, %extend, imports other than those from `common`, templates,
// priorities, and anchors or look-around in regular expressions. Throws RequestError.
ExprId lark_expr(ByteGrammar& grammar, std::string_view text, const CharacterExpr& character);

}  // namespace tp::constraint
