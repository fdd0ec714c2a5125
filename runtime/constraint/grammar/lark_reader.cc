#include "runtime/constraint/grammar/lark_reader.h"

#include "runtime/constraint/grammar/code_points.h"
#include "runtime/constraint/grammar/text_cursor.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxLarkDepth = 200;
constexpr const char* kLark = "the Lark grammar";

// The terminals of Lark's library `common`. Lark writes some of them with look-around or lazy repetitions.
constexpr std::array<std::pair<std::string_view, std::string_view>, 24> kCommon = {{
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", R"([0-9]+\.[0-9]*|\.[0-9]+)"},
    {"FLOAT", R"([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"SIGNED_FLOAT", R"([+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?))"},
    {"NUMBER", R"(([0-9]+|([0-9]+\.[0-9]*|\.[0-9]+))([eE][+-]?[0-9]+)?)"},
    {"SIGNED_NUMBER", R"([+-]?([0-9]+|([0-9]+\.[0-9]*|\.[0-9]+))([eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", R"("([^"\\\n]|\\[^\n])*")"},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", R"([ \t]+)"},
    {"WS", R"([ \t\f\r\n]+)"},
    {"CR", R"(\r)"},
    {"LF", R"(\n)"},
    {"NEWLINE", R"((\r?\n)+)"},
    {"SH_COMMENT", R"(#[^\n]*)"},
    {"CPP_COMMENT", R"(//[^\n]*)"},
    {"C_COMMENT", R"(/\*([^*]|\*+[^*/])*\*+/)"},
    {"SQL_COMMENT", R"(--[^\n]*)"},
}};

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_terminal(std::string_view name) {
  const std::size_t first = name.find_first_not_of('_');
  return first != name.npos && name[first] >= 'A' && name[first] <= 'Z';
}

bool has_assertion(const RegexNode& node) {
  using Kind = RegexNode::Kind;
  const bool is_assertion = node.kind == Kind::text_begin || node.kind == Kind::text_end ||
                            node.kind == Kind::ahead || node.kind == Kind::word_edge;
  return is_assertion || std::ranges::any_of(node.parts, has_assertion);
}

class LarkReader {
 public:
  LarkReader(ByteGrammar& grammar, std::string_view text, const CharacterExpr& character)
      : cursor_(kLark, text), grammar_(grammar), character_(character) {}

  ExprId read() {
    const RuleId start = rule_of("start");
    for (skip_lines(cursor_); !cursor_.at_end(); skip_lines(cursor_)) read_statement();
    for (const auto& [name, rule] : rules_) {
      require<RequestError>(rule.defined, "{}: expected a {} `{}: ...`, found none; add it", kLark,
                            is_terminal(name) ? "terminal" : "rule", name);
    }
    return grammar_.rule(start);
  }

 private:
  struct Rule {
    RuleId id = 0;
    bool defined = false;
  };

  RuleId rule_of(const std::string& name) {
    const auto [found, is_new] = rules_.try_emplace(name);
    if (is_new) found->second.id = grammar_.add_rule();
    return found->second.id;
  }

  void define(const std::string& name, const TextCursor& place, ExprId expr) {
    const RuleId id = rule_of(name);
    if (std::exchange(rules_.at(name).defined, true)) place.fail("names that differ");
    grammar_.define(id, expr);
  }

  static bool at_comment(const TextCursor& cursor) {
    return cursor.peek() == '#' || cursor.rest().starts_with("//");
  }

  // Skips white space and comments in a line.
  static void skip_blanks(TextCursor& cursor) {
    while (true) {
      const char next = cursor.peek();
      if (at_comment(cursor))
        cursor.skip(std::min(cursor.rest().find('\n'), cursor.rest().size()));
      else if (next == ' ' || next == '\t' || next == '\r' || next == '\f')
        cursor.skip(1);
      else if (!cursor.accept("\\\n") && !cursor.accept("\\\r\n"))
        return;
    }
  }

  static void skip_lines(TextCursor& cursor) {
    do skip_blanks(cursor);
    while (cursor.accept("\n"));
  }

  // A rule continues in the next line if it is inside a group or the line begins with `|`.
  void skip_space(std::size_t depth) {
    skip_blanks(cursor_);
    if (cursor_.peek() != '\n') return;
    TextCursor ahead = cursor_;
    skip_lines(ahead);
    if (depth > 0 || ahead.peek() == '|') cursor_ = ahead;
  }

  std::string read_name() {
    std::string name;
    for (; is_name_byte(cursor_.peek()); cursor_.skip(1)) name += cursor_.peek();
    if (name.empty()) cursor_.fail("a name of letters, digits and `_`");
    return name;
  }

  void read_statement() {
    if (cursor_.peek() == '%') return read_directive();
    const TextCursor begin = cursor_;
    while (cursor_.accept("?") || cursor_.accept("!")) {
    }
    const std::string name = read_name();
    skip_blanks(cursor_);
    refuse_template();
    if (cursor_.peek() == '.') cursor_.fail_unsupported("a priority");
    if (!cursor_.accept(":")) cursor_.fail("`:` after the name of a rule or terminal");
    is_in_terminal_ = is_terminal(name);
    define(name, begin, read_choice(0));
    end_statement();
  }

  void end_statement() {
    skip_blanks(cursor_);
    if (!cursor_.at_end() && !cursor_.accept("\n")) cursor_.fail("a part of a rule, or the end of the line");
  }

  void refuse_template() const {
    if (cursor_.peek() == '{') cursor_.fail_unsupported("a template");
  }

  void read_directive() {
    for (const char* name : {"%ignore", "%declare", "%override", "%extend"}) {
      if (cursor_.rest().starts_with(name)) cursor_.fail_unsupported(fmt::format("`{}`", name));
    }
    if (!cursor_.accept("%import")) cursor_.fail("`%import`");
    skip_blanks(cursor_);
    const TextCursor begin = cursor_;
    const std::string library = cursor_.peek() == '.' ? "" : read_name();
    if (library != "common") begin.fail_unsupported("an import from another library than `common`");
    skip_blanks(cursor_);
    if (cursor_.accept("(")) {
      do import(false);
      while (cursor_.accept(","));
      if (!cursor_.accept(")")) cursor_.fail("`)`");
    } else {
      if (!cursor_.accept(".")) cursor_.fail("`.` and the name of a terminal");
      import(true);
    }
    end_statement();
  }

  void import(bool may_rename) {
    skip_space(1 - static_cast<std::size_t>(may_rename));
    const TextCursor begin = cursor_;
    const std::string name = read_name();
    const auto* const common =
        std::ranges::find(kCommon, name, &std::pair<std::string_view, std::string_view>::first);
    if (common == kCommon.end()) begin.fail("a terminal of the library `common`");
    skip_space(1 - static_cast<std::size_t>(may_rename));
    std::string alias = name;
    if (may_rename && cursor_.accept("->")) {
      skip_blanks(cursor_);
      alias = read_name();
    }
    define(alias, begin, pattern_expr(std::string(common->second), begin));
  }

  ExprId read_choice(std::size_t depth) {
    if (depth > kMaxLarkDepth)
      cursor_.fail(fmt::format("at most {} nested groups", kMaxLarkDepth), "simplify it");
    std::vector<ExprId> choices;
    do choices.push_back(read_sequence(depth));
    while (cursor_.accept("|"));
    return grammar_.choice(std::move(choices));
  }

  // The parts of an alternative, and its alias.
  ExprId read_sequence(std::size_t depth) {
    std::vector<ExprId> parts;
    for (skip_space(depth); !at_end_of_sequence(); skip_space(depth)) parts.push_back(read_repeated(depth));
    if (cursor_.accept("->")) {
      skip_blanks(cursor_);
      read_name();
      skip_space(depth);
    }
    return grammar_.sequence(std::move(parts));
  }

  bool at_end_of_sequence() const {
    return cursor_.at_end() || std::string_view("\n|)]").find(cursor_.peek()) != std::string_view::npos ||
           cursor_.rest().starts_with("->");
  }

  ExprId read_repeated(std::size_t depth) {
    const ExprId part = read_part(depth);
    skip_blanks(cursor_);
    if (cursor_.accept("*")) return grammar_.repeat(part, 0, kUnbounded);
    if (cursor_.accept("+")) return grammar_.repeat(part, 1, kUnbounded);
    if (cursor_.accept("?")) return grammar_.optional(part);
    return cursor_.accept("~") ? read_bounds(part) : part;
  }

  // n, or n..m.
  ExprId read_bounds(ExprId part) {
    const auto number = [&] {
      skip_blanks(cursor_);
      const std::optional<std::uint32_t> digits = cursor_.digits(10, 8);
      if (!digits) cursor_.fail("a number of repetitions");
      return *digits;
    };
    const std::uint32_t min = number();
    skip_blanks(cursor_);
    const std::uint32_t max = cursor_.accept("..") ? number() : min;
    if (max < min) cursor_.fail("bounds in order before this");
    return grammar_.repeat(part, min, max);
  }

  ExprId read_part(std::size_t depth) {
    if (cursor_.accept("(")) return read_group(depth, ")");
    if (cursor_.accept("[")) return grammar_.optional(read_group(depth, "]"));
    if (cursor_.peek() == '"') return read_literal();
    if (cursor_.peek() == '/') return read_pattern();
    if (!is_name_byte(cursor_.peek())) cursor_.fail("a name, a literal, a regular expression, `(` or `[`");
    const TextCursor begin = cursor_;
    const std::string name = read_name();
    refuse_template();
    if (is_in_terminal_ && !is_terminal(name))
      begin.fail("the name of a terminal, because terminals have no rules");
    return grammar_.rule(rule_of(name));
  }

  ExprId read_group(std::size_t depth, const char* end) {
    const ExprId group = read_choice(depth + 1);
    if (!cursor_.accept(end)) cursor_.fail(fmt::format("`{}`", end));
    return group;
  }

  std::vector<char32_t> read_quoted() {
    std::vector<char32_t> text;
    cursor_.skip(1);
    while (!cursor_.accept("\"")) {
      if (cursor_.at_end() || cursor_.peek() == '\n') cursor_.fail("`\"`", "close the literal");
      text.push_back(read_character());
    }
    return text;
  }

  char32_t read_character() {
    if (!cursor_.accept("\\")) return cursor_.character();
    constexpr std::string_view kShort = "n\nt\tr\rf\f\\\\\"\"";
    for (std::size_t i = 0; i < kShort.size(); i += 2) {
      if (cursor_.accept(kShort.substr(i, 1))) return static_cast<char32_t>(kShort[i + 1]);
    }
    const char kind = cursor_.peek();
    const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits == 0) cursor_.fail("an escape: \\n, \\t, \\r, \\f, \\x, \\u, \\U, \\\\ or \\\"");
    cursor_.skip(1);
    const char32_t value = cursor_.hex(digits);
    if (value > CodePoints::kLast || (value >= 0xD800 && value <= 0xDFFF))
      cursor_.fail("a Unicode character before this");
    return value;
  }

  // "text", "text"i or "a".."z".
  ExprId read_literal() {
    const TextCursor begin = cursor_;
    const std::vector<char32_t> text = read_quoted();
    if (cursor_.rest().starts_with("..") && cursor_.peek(2) == '"') {
      cursor_.skip(2);
      const std::vector<char32_t> last = read_quoted();
      if (text.size() != 1 || last.size() != 1 || last.front() < text.front())
        begin.fail("a range of two characters in order");
      return character_({{text.front(), last.front()}});
    }
    const bool ignores_case = cursor_.accept("i");
    std::vector<ExprId> parts;
    for (const char32_t character : text) {
      const CodePoints one = {{character, character}};
      parts.push_back(character_(ignores_case ? one.in_both_cases() : one));
    }
    return grammar_.sequence(std::move(parts));
  }

  // /pattern/flags
  ExprId read_pattern() {
    const TextCursor begin = cursor_;
    cursor_.skip(1);
    std::string pattern;
    while (!cursor_.accept("/")) {
      if (cursor_.at_end() || cursor_.peek() == '\n') begin.fail("`/` at the end of the regular expression");
      if (cursor_.peek() == '\\' && cursor_.peek(1) != '\n') {
        pattern += '\\';
        cursor_.skip(1);
      }
      utf8::append(pattern, cursor_.character());
    }
    std::string flags;
    for (; std::string_view("imslux").find(cursor_.peek()) != std::string_view::npos && !cursor_.at_end();
         cursor_.skip(1)) {
      if (cursor_.peek() != 'i' && cursor_.peek() != 's' && cursor_.peek() != 'u')
        cursor_.fail_unsupported(fmt::format("the flag `{}`", cursor_.peek()));
      flags += cursor_.peek();
    }
    return pattern_expr(flags.empty() ? pattern : fmt::format("(?{}:{})", flags, pattern), begin);
  }

  ExprId pattern_expr(const std::string& pattern, const TextCursor& place) {
    const std::string what = fmt::format("{}: the regular expression at offset {}", kLark, place.place());
    const RegexNode node = read_regex(what, pattern, RegexDot::all_but_newline);
    if (has_assertion(node)) place.fail_unsupported("a regular expression with anchors or look-around");
    return regex_expr(grammar_, node, RegexMatch::whole, character_);
  }

  TextCursor cursor_;
  ByteGrammar& grammar_;
  const CharacterExpr& character_;
  std::map<std::string, Rule> rules_;
  bool is_in_terminal_ = false;
};

}  // namespace

ExprId lark_expr(ByteGrammar& grammar, std::string_view text, const CharacterExpr& character) {
  return LarkReader(grammar, text, character).read();
}

}  // namespace tp::constraint
