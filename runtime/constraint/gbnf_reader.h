// GBNF, llama.cpp's notation for grammars, with some additions:
//
//   root   ::= "a" [^b-d]{2,5} ( item | "x"? )* .    # literals, classes, groups, any character, repetitions
//   item   ::= <[128001]>                            # a control token, by its id
//   args   ::= %json {"type": "object", ...}         # JSON that a schema allows
//   patch  ::= %lark "start: /[a-z]+/"               # text that a grammar in Lark's notation derives
//   input  ::= %lark_string "start: /[a-z]+/"        # such a text as a JSON string
//   number ::= %regex "[0-9]+"                       # text that a regular expression matches
//   before ::= %until "</think>"                     # any text up to and including the first "</think>"
//   rest   ::= %without "</think>"                   # any text that does not contain "</think>"
//   mark   ::= %marker "<tool_call>"                 # this text, in which control tokens may be written out
//   answer ::= %constraint                           # in Request::constraint_frame: the constrained text
//
// In `%until`, `%without` and `%marker`, a text that the tokenizer has as a control token stands for the
// token. `%until` and
// `%without` find both the token and the text.
#pragma once

#include "runtime/constraint/byte_vocabulary.h"
#include "runtime/constraint/grammar/byte_grammar.h"

#include <optional>
#include <string_view>

namespace tp::constraint {

// Adds the texts that a grammar derives. Without a vocabulary (null), all markers are texts. `constrained`:
// the meaning of `%constraint`. Throws RequestError.
ExprId gbnf_expr(ByteGrammar& grammar, std::string_view text, const ByteVocabulary* vocabulary,
                 std::optional<ExprId> constrained = std::nullopt);

}  // namespace tp::constraint
