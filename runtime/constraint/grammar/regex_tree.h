// Regular expressions: what is common to those of JavaScript, which JSON Schema has, Python and Perl.
#pragma once

#include "runtime/constraint/grammar/byte_grammar.h"
#include "runtime/constraint/grammar/code_points.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace tp::constraint {

struct RegexNode {
  enum class Kind : std::uint8_t {
    characters,
    sequence,
    choice,
    repeat,
    text_begin,
    text_end,
    ahead,      // what follows begins with a match of parts[0]
    word_edge,  // between a word character and another one, or an end of the text
  };

  Kind kind = Kind::sequence;
  bool negated = false;     // of `ahead` and `word_edge`
  CodePoints characters{};  // one of these
  std::vector<RegexNode> parts{};
  std::uint32_t min = 0;
  std::uint32_t max = 0;
};

// `what` names the expression in errors. Unsupported are lookbehind, back references, properties (\p), flags
// except `i` and `s`, possessive quantifiers and atomic groups. White space (\s) is ASCII's, a dot matches
// all but line ends, and `i` ignores the case of ASCII letters. Throws RequestError.
RegexNode read_regex(std::string_view what, std::string_view pattern);

// How many characters its matches have; kUnbounded if there is no limit.
struct MatchLength {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};
MatchLength match_length(const RegexNode& node);

enum class RegexMatch : std::uint8_t { whole, search };

// A plain expression for the texts of `node` that have `length` characters. Changes the bounds of one
// repetition in each alternative; returns nothing if more would have to change.
std::optional<RegexNode> with_length(const RegexNode& node, RegexMatch match, MatchLength length);

// Whether regex_expr() can write the expression: anchors stand only at the beginning or end of alternatives,
// and nothing looks ahead. An intersection() can have any expression.
bool is_plain(const RegexNode& node);

// Adds the texts that a plain expression matches as a whole, or, with `search`, those that contain a match.
// `character` adds one of a set of characters, in whichever way it is written.
using CharacterExpr = std::function<ExprId(const CodePoints& set)>;
ExprId regex_expr(ByteGrammar& grammar, const RegexNode& node, RegexMatch match,
                  const CharacterExpr& character);

}  // namespace tp::constraint
