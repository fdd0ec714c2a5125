// Regular expressions: the features that JavaScript (and so JSON Schema), Python and Perl have in common.
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
    ahead,      // the text ahead begins with a match of parts[0]
    word_edge,  // between a word character and another character, or an end of the text
  };

  Kind kind = Kind::sequence;
  bool negated = false;     // for `ahead` and `word_edge`
  CodePoints characters{};  // one of these
  std::vector<RegexNode> parts{};
  std::uint32_t min = 0;
  std::uint32_t max = 0;
};

// The characters that a dot does not match: the line ends of all dialects, or \n alone, as in Python.
enum class RegexDot : std::uint8_t { all_but_line_ends, all_but_newline };

// Parses an expression, which errors call `what`. Unsupported are lookbehind, back references, properties
// (\p), flags other than `i` and `s`, possessive quantifiers and atomic groups. White space (\s) is ASCII
// white space, and `i` ignores the case of ASCII letters. Throws RequestError.
RegexNode read_regex(std::string_view what, std::string_view pattern,
                     RegexDot dot = RegexDot::all_but_line_ends);

// Number of characters of an expression's matches; max: kUnbounded for no limit.
struct MatchLength {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};
MatchLength match_length(const RegexNode& node);

enum class RegexMatch : std::uint8_t { whole, search };

// Returns a plain expression for the texts of `node` that have `length` characters. Changes the bounds of one
// repetition in each alternative, and returns nothing if more would have to change.
std::optional<RegexNode> with_length(const RegexNode& node, RegexMatch match, MatchLength length);

// Whether regex_expr() supports the expression: anchors are only at the beginning or end of alternatives, and
// nothing looks ahead. intersection() supports every expression.
bool is_plain(const RegexNode& node);

// Adds the texts that a plain expression matches as a whole, or, with `search`, the texts that contain a
// match. `character` adds one character of a set, in any notation.
using CharacterExpr = std::function<ExprId(const CodePoints& set)>;
ExprId regex_expr(ByteGrammar& grammar, const RegexNode& node, RegexMatch match,
                  const CharacterExpr& character);

}  // namespace tp::constraint
