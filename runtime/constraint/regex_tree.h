// Regular expressions: what is common to those of JavaScript, which JSON Schema has, Python and Perl.
#pragma once

#include "runtime/constraint/byte_grammar.h"
#include "runtime/constraint/code_points.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace tp::constraint {

struct RegexNode {
  enum class Kind : std::uint8_t { characters, sequence, choice, repeat, text_begin, text_end };

  Kind kind = Kind::sequence;
  CodePoints characters{};  // one of these
  std::vector<RegexNode> parts{};
  std::uint32_t min = 0;
  std::uint32_t max = 0;
};

// `what` names the expression in errors. Unsupported are lookaround, back references, word boundaries,
// properties (\p), flags, possessive quantifiers and atomic groups; white space (\s) is ASCII's, and a dot
// matches all but line ends. Throws RequestError.
RegexNode read_regex(std::string_view what, std::string_view pattern);

// How many characters its matches have; kUnbounded if there is no limit.
struct MatchLength {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};
MatchLength match_length(const RegexNode& node);

// The same expression where texts have min to max characters, as far as that can be had by changing the
// bounds of one repetition in each alternative; nothing if not.
enum class RegexMatch : std::uint8_t { whole, search };
std::optional<RegexNode> with_length(const RegexNode& node, RegexMatch match, MatchLength length,
                                     std::string_view what);

// Adds the texts that the expression matches as a whole, or, with `search`, those that contain a match.
// `character` adds one of a set of characters, in whichever way it is written. Throws RequestError for
// anchors that are not at the beginning or end.
using CharacterExpr = std::function<ExprId(const CodePoints& set)>;
ExprId regex_expr(ByteGrammar& grammar, const RegexNode& node, RegexMatch match,
                  const CharacterExpr& character, std::string_view what);

}  // namespace tp::constraint
