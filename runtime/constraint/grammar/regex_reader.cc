#include "runtime/constraint/grammar/regex_tree.h"
#include "runtime/constraint/grammar/text_cursor.h"

#include <optional>
#include <utility>

namespace tp::constraint {
namespace {

using RegexKind = RegexNode::Kind;

constexpr std::size_t kMaxRegexDepth = 200;

CodePoints digits() { return {{'0', '9'}}; }
CodePoints word_characters() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CodePoints line_ends() { return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }
// White space in all dialects.
CodePoints ascii_spaces() { return {{'\t', '\r'}, {' ', ' '}}; }
// White space in any dialect.
CodePoints all_spaces() {
  return {{'\t', '\r'},     {0x1C, ' '},      {0x85, 0x85},     {0xA0, 0xA0},
          {0x1680, 0x1680}, {0x180E, 0x180E}, {0x2000, 0x200A}, {0x2028, 0x2029},
          {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

// Flags that are set in a group hold until the group ends.
struct Flags {
  bool ignore_case = false;  // i
  bool dot_is_all = false;   // s
  bool is_inverted = false;  // within an odd number of (?!
};

RegexNode one_of(CodePoints set) { return {.kind = RegexKind::characters, .characters = std::move(set)}; }

class RegexReader {
 public:
  RegexReader(std::string_view what, std::string_view pattern, RegexDot dot)
      : cursor_(what, pattern), dot_(dot) {}

  RegexNode read() {
    RegexNode node = read_choice(0);
    if (!cursor_.at_end()) cursor_.fail("the expression's end", "escape the `)`, or remove it");
    return node;
  }

 private:
  RegexNode read_choice(std::size_t depth) {
    if (depth > kMaxRegexDepth)
      cursor_.fail(fmt::format("at most {} nested groups", kMaxRegexDepth), "simplify it");
    RegexNode choice{.kind = RegexKind::choice};
    do choice.parts.push_back(read_sequence(depth));
    while (cursor_.accept("|"));
    if (choice.parts.size() > 1) return choice;
    RegexNode only = std::move(choice.parts.front());
    return only;
  }

  RegexNode read_sequence(std::size_t depth) {
    RegexNode sequence{.kind = RegexKind::sequence};
    while (!cursor_.at_end() && cursor_.peek() != '|' && cursor_.peek() != ')')
      sequence.parts.push_back(read_quantified(depth));
    return sequence;
  }

  RegexNode read_quantified(std::size_t depth) {
    RegexNode node = read_atom(depth);
    while (const auto bounds = read_quantifier()) {
      if (node.kind == RegexKind::text_begin || node.kind == RegexKind::text_end ||
          node.kind == RegexKind::ahead || node.kind == RegexKind::word_edge)
        cursor_.fail_unsupported("a repeated anchor");
      if (node.kind == RegexKind::repeat)
        cursor_.fail("no second quantifier", "put the first one into a group");
      RegexNode repeat{.kind = RegexKind::repeat, .min = bounds->first, .max = bounds->second};
      repeat.parts.push_back(std::move(node));
      node = std::move(repeat);
      if (!cursor_.accept("?") && cursor_.peek() == '+') cursor_.fail_unsupported("a possessive quantifier");
    }
    return node;
  }

  std::optional<std::pair<std::uint32_t, std::uint32_t>> read_quantifier() {
    if (cursor_.accept("*")) return std::pair{0U, kUnbounded};
    if (cursor_.accept("+")) return std::pair{1U, kUnbounded};
    if (cursor_.accept("?")) return std::pair{0U, 1U};
    if (cursor_.peek() != '{') return std::nullopt;
    TextCursor ahead = cursor_;
    ahead.skip(1);
    std::optional<std::uint32_t> min = ahead.digits(10, 7);
    std::optional<std::uint32_t> max = min;
    // {,3} means {0,3} in Python. A brace alone stands for itself, and so does {,}.
    if (!min && ahead.rest().starts_with(",") && ahead.peek(1) >= '0' && ahead.peek(1) <= '9') min = 0;
    if (!min) return std::nullopt;
    if (ahead.accept(",")) max = ahead.peek() == '}' ? kUnbounded : ahead.digits(10, 7);
    if (!max) return std::nullopt;
    if (!ahead.accept("}")) ahead.fail(fmt::format("`}}` and bounds of at most {}", kMaxRepetitions));
    if (*max < *min || *min > kMaxRepetitions || (*max != kUnbounded && *max > kMaxRepetitions))
      cursor_.fail(fmt::format("a quantifier with bounds in order, at most {}", kMaxRepetitions));
    cursor_ = ahead;
    return std::pair{*min, *max};
  }

  RegexNode read_atom(std::size_t depth) {
    if (cursor_.peek() == '(') return read_group(depth);
    if (cursor_.peek() == '[') return one_of(read_class());
    if (cursor_.accept("^")) return {.kind = RegexKind::text_begin};
    if (cursor_.accept("$")) return {.kind = RegexKind::text_end};
    if (cursor_.accept(".")) return one_of(dot());
    if (cursor_.peek() == '\\') return read_escape();
    const char next = cursor_.peek();
    if (next == '*' || next == '+' || next == '?')
      cursor_.fail("something to repeat", "escape the quantifier");
    const char32_t character = cursor_.character();
    return characters({{character, character}});
  }

  CodePoints dot() const {
    if (flags_.dot_is_all) return CodePoints::all();
    return dot_ == RegexDot::all_but_newline ? CodePoints{{'\n', '\n'}}.complement()
                                             : line_ends().complement();
  }

  RegexNode characters(CodePoints set) const {
    return one_of(flags_.ignore_case ? set.in_both_cases() : set);
  }

  RegexNode read_group(std::size_t depth) {
    constexpr std::string_view kOther =
        "a group that is not `(`, `(?:`, `(?<name>`, `(?=`, `(?!`, `(?i)` or `(?i:`";
    const Flags outside = flags_;
    cursor_.skip(1);
    RegexNode group{.kind = RegexKind::sequence};
    bool is_over = false;  // flags for the rest of the enclosing group
    if (cursor_.accept("?")) {
      const bool is_named = cursor_.peek() == '<' || cursor_.peek() == 'P';
      const char behind = cursor_.peek(1);
      if (is_named && behind != '=' && behind != '!' && behind != '>')
        read_name();
      else if (cursor_.peek() == '=' || cursor_.peek() == '!')
        group = {.kind = RegexKind::ahead, .negated = cursor_.accept("!") || !cursor_.accept("=")};
      else if (!cursor_.accept(":"))
        is_over = read_flags(kOther);
    }
    if (is_over) return group;
    flags_.is_inverted = flags_.is_inverted != group.negated;
    group.parts.push_back(read_choice(depth + 1));
    if (!cursor_.accept(")")) cursor_.fail("`)`");
    flags_ = outside;
    return group;
  }

  // Reads flags such as `i)` and `s-i:`. Returns whether the group ends with them.
  bool read_flags(std::string_view expected) {
    bool on = true;
    while (cursor_.peek() != ')' && cursor_.peek() != ':') {
      if (cursor_.accept("-"))
        on = false;
      else if (cursor_.accept("i"))
        flags_.ignore_case = on;
      else if (cursor_.accept("s"))
        flags_.dot_is_all = on;
      else if (!cursor_.accept("u"))  // Unicode, which is always on
        cursor_.fail_unsupported(expected);
    }
    return !cursor_.accept(":") && cursor_.accept(")");
  }

  void read_name() {
    cursor_.accept("P");
    if (!cursor_.accept("<")) cursor_.fail_unsupported("a group with this beginning");
    while (!cursor_.accept(">")) {
      if (cursor_.at_end()) cursor_.fail("`>`");
      cursor_.skip(1);
    }
  }

  RegexNode read_escape() {
    const char kind = cursor_.peek(1);
    if (kind == 'A' || kind == 'z') {
      cursor_.skip(2);
      return {.kind = kind == 'A' ? RegexKind::text_begin : RegexKind::text_end};
    }
    if (kind >= '1' && kind <= '9') cursor_.fail_unsupported("a back reference");
    if (kind == 'b' || kind == 'B') {
      cursor_.skip(2);
      return {.kind = RegexKind::word_edge, .negated = kind == 'B'};
    }
    return characters(read_escaped_set(flags_.is_inverted));
  }

  // Reads an escape for a set of characters. `negated`: matches are ruled out, so white space must include
  // all that any dialect counts as white space.
  CodePoints read_escaped_set(bool negated) {
    const char kind = cursor_.peek(1);
    const auto done = [&](CodePoints set) {
      cursor_.skip(2);
      return set;
    };
    if (kind == 'd') return done(digits());
    if (kind == 'D') return done(digits().complement());
    if (kind == 'w') return done(word_characters());
    if (kind == 'W') return done(word_characters().complement());
    if (kind == 's') return done(negated ? all_spaces() : ascii_spaces());
    if (kind == 'S') return done((negated ? ascii_spaces() : all_spaces()).complement());
    if (kind == 'p' || kind == 'P') cursor_.fail_unsupported("a property of characters (\\p)");
    const char32_t character = read_escaped_character();
    return {{character, character}};
  }

  char32_t read_escaped_character() {
    cursor_.skip(1);
    if (cursor_.accept("n")) return '\n';
    if (cursor_.accept("r")) return '\r';
    if (cursor_.accept("t")) return '\t';
    if (cursor_.accept("f")) return '\f';
    if (cursor_.accept("v")) return '\v';
    if (cursor_.accept("x{") || cursor_.accept("u{")) return read_braced();
    if (cursor_.accept("x")) return cursor_.hex(2);
    if (cursor_.accept("u")) return read_unit();
    if (cursor_.accept("c")) return cursor_.character() % 32;
    if (cursor_.peek() == '0' && !(cursor_.peek(1) >= '0' && cursor_.peek(1) <= '9')) {
      cursor_.skip(1);
      return 0;
    }
    const char next = cursor_.peek();
    const bool is_letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
    if (is_letter || (next >= '0' && next <= '9')) cursor_.fail_unsupported("this escape");
    return cursor_.character();
  }

  char32_t read_braced() {
    const std::optional<std::uint32_t> value = cursor_.digits(16, 6);
    if (!value || *value > CodePoints::kLast || !cursor_.accept("}"))
      cursor_.fail("a code point of up to six hexadecimal digits, then `}`");
    return *value;
  }

  // Reads one unit, or two units that form a surrogate pair.
  char32_t read_unit() {
    const char32_t high = cursor_.hex(4);
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !cursor_.accept("\\u")) cursor_.fail("a pair of surrogates");
    const char32_t low = cursor_.hex(4);
    if (low < 0xDC00 || low > 0xDFFF) cursor_.fail("a pair of surrogates");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  CodePoints read_class() {
    cursor_.skip(1);
    const bool negated = cursor_.accept("^");
    CodePoints set;
    for (bool is_first = true; is_first || cursor_.peek() != ']'; is_first = false) {
      if (cursor_.at_end()) cursor_.fail("`]`", "close the class, or escape the `[`");
      if (is_first && cursor_.peek() == ']') break;  // an empty class, as in JavaScript
      if (cursor_.rest().starts_with("[:")) cursor_.fail_unsupported("a POSIX class");
      if (cursor_.rest().starts_with("&&") || cursor_.rest().starts_with("--"))
        cursor_.fail_unsupported("an operation on classes");
      add_to_class(set, negated);
    }
    cursor_.skip(1);
    if (flags_.ignore_case) set = set.in_both_cases();
    return negated ? set.complement() : set;
  }

  void add_to_class(CodePoints& set, bool negated) {
    const auto is_set = [&] {
      return cursor_.peek() == '\\' &&
             std::string_view("dDwWsSpP").find(cursor_.peek(1)) != std::string_view::npos;
    };
    for (const char* everything : {"\\s\\S", "\\S\\s"}) {
      if (cursor_.accept(everything)) return set.add(CodePoints::all());
    }
    if (is_set()) return set.add(read_escaped_set(negated != flags_.is_inverted));
    const char32_t first = read_class_character();
    if (cursor_.peek() != '-' || cursor_.peek(1) == ']') return set.add(first, first);
    cursor_.skip(1);
    if (is_set()) cursor_.fail("a character as the end of a range", "put the `-` at the end of the class");
    const char32_t last = read_class_character();
    if (last < first) cursor_.fail("a range in order");
    set.add(first, last);
  }

  char32_t read_class_character() {
    if (cursor_.peek() != '\\') return cursor_.character();
    if (cursor_.peek(1) == 'b') {
      cursor_.skip(2);
      return '\b';
    }
    return read_escaped_character();
  }

  TextCursor cursor_;
  RegexDot dot_;
  Flags flags_;
};

}  // namespace

RegexNode read_regex(std::string_view what, std::string_view pattern, RegexDot dot) {
  constexpr std::size_t kMaxBytes = std::size_t{64} << 10;
  require<RequestError>(pattern.size() <= kMaxBytes,
                        "{} has {} bytes (expected at most {} bytes); shorten it", what, pattern.size(),
                        kMaxBytes);
  return RegexReader(what, pattern, dot).read();
}

}  // namespace tp::constraint
