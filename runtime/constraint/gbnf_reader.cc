#include "runtime/constraint/gbnf_reader.h"

#include "runtime/constraint/grammar/code_points.h"
#include "runtime/constraint/grammar/lark_reader.h"
#include "runtime/constraint/grammar/matching_texts.h"
#include "runtime/constraint/grammar/text_cursor.h"
#include "runtime/constraint/grammar/text_search.h"
#include "runtime/constraint/schema/json_grammar.h"
#include "runtime/constraint/schema/json_schema.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxGroupDepth = 200;
constexpr std::size_t kMaxQuantifiers = 16;  // in a row: each one encloses the part with those before it

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfReader {
 public:
  GbnfReader(ByteGrammar& grammar, std::string_view text, const ByteVocabulary* vocabulary,
             std::optional<ExprId> constrained)
      : cursor_("the grammar", text), grammar_(grammar), vocabulary_(vocabulary), constrained_(constrained) {}

  ExprId read() {
    const RuleId root = rule_of("root");
    for (skip_space(); !cursor_.at_end(); skip_space()) read_rule();
    for (const auto& [name, rule] : rules_) {
      require<RequestError>(rule.defined, "the grammar: expected a rule `{} ::= ...`, found none; add it",
                            name);
    }
    return grammar_.rule(root);
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

  void skip_space() {
    while (true) {
      const char next = cursor_.peek();
      if (next == '#') {
        while (!cursor_.at_end() && cursor_.peek() != '\n') cursor_.skip(1);
      } else if (!cursor_.at_end() && (next == ' ' || next == '\t' || next == '\n' || next == '\r')) {
        cursor_.skip(1);
      } else {
        return;
      }
    }
  }

  std::string read_name() {
    std::string name;
    for (; is_name_character(cursor_.peek()); cursor_.skip(1)) name.push_back(cursor_.peek());
    if (name.empty()) cursor_.fail("the name of a rule (letters, digits, `-` and `_`)");
    return name;
  }

  // Whether a rule begins here: a name, and `::=`.
  bool at_rule() const {
    TextCursor ahead = cursor_;
    while (is_name_character(ahead.peek())) ahead.skip(1);
    if (ahead.place() == cursor_.place()) return false;
    while (ahead.peek() == ' ' || ahead.peek() == '\t') ahead.skip(1);
    return ahead.rest().starts_with("::=");
  }

  void read_rule() {
    const TextCursor begin = cursor_;
    const std::string name = read_name();
    skip_space();
    if (!cursor_.accept("::=")) cursor_.fail("`::=` after the name of a rule");
    const RuleId id = rule_of(name);
    if (std::exchange(rules_.at(name).defined, true)) begin.fail("rules with different names");
    grammar_.define(id, read_choice(0));
    if (!cursor_.at_end() && !at_rule()) cursor_.fail("a part of a rule, or the next rule");
  }

  ExprId read_choice(std::size_t depth) {
    if (depth > kMaxGroupDepth)
      cursor_.fail(fmt::format("at most {} nested groups", kMaxGroupDepth), "simplify it");
    std::vector<ExprId> choices;
    do choices.push_back(read_sequence(depth));
    while (cursor_.accept("|"));
    return grammar_.choice(std::move(choices));
  }

  ExprId read_sequence(std::size_t depth) {
    std::vector<ExprId> parts;
    for (skip_space(); !cursor_.at_end() && cursor_.peek() != '|' && cursor_.peek() != ')' && !at_rule();
         skip_space())
      parts.push_back(read_repeated(depth));
    return grammar_.sequence(std::move(parts));
  }

  ExprId read_repeated(std::size_t depth) {
    ExprId part = read_part(depth);
    for (std::size_t quantifiers = 0; at_quantifier(); ++quantifiers) {
      if (quantifiers == kMaxQuantifiers)
        cursor_.fail(fmt::format("at most {} quantifiers in a row", kMaxQuantifiers), "leave some out");
      part = read_quantifier(part);
    }
    return part;
  }

  bool at_quantifier() const {
    return !cursor_.at_end() && std::string_view("*+?{").find(cursor_.peek()) != std::string_view::npos;
  }

  ExprId read_quantifier(ExprId part) {
    if (cursor_.accept("*")) return grammar_.repeat(part, 0, kUnbounded);
    if (cursor_.accept("+")) return grammar_.repeat(part, 1, kUnbounded);
    if (cursor_.accept("?")) return grammar_.optional(part);
    cursor_.skip(1);
    return read_bounds(part);
  }

  // {n}, {n,} or {n,m}.
  ExprId read_bounds(ExprId part) {
    const std::optional<std::uint32_t> min = cursor_.digits(10, 8);
    if (!min) cursor_.fail("a number of repetitions");
    std::optional<std::uint32_t> max = min;
    if (cursor_.accept(",")) max = cursor_.peek() == '}' ? kUnbounded : cursor_.digits(10, 8);
    if (!max || !cursor_.accept("}")) cursor_.fail("`}`");
    if (*max < *min) cursor_.fail("bounds in order before this");
    return grammar_.repeat(part, *min, *max);
  }

  ExprId read_part(std::size_t depth) {
    if (cursor_.peek() == '"') return grammar_.text(read_literal());
    if (cursor_.peek() == '[') return read_class().expr(grammar_);
    if (cursor_.accept(".")) return CodePoints::all().expr(grammar_);
    if (cursor_.accept("<[")) return read_token();
    if (cursor_.accept("(")) {
      const ExprId group = read_choice(depth + 1);
      if (!cursor_.accept(")")) cursor_.fail("`)`");
      return group;
    }
    if (cursor_.accept("%json")) return read_schema();
    if (cursor_.accept("%regex")) return read_regular_expression();
    if (cursor_.accept("%lark_string")) return read_lark_string();
    if (cursor_.accept("%lark")) return lark_expr(grammar_, read_argument(), plain_characters(grammar_));
    if (cursor_.accept("%until")) return read_until();
    if (cursor_.accept("%without")) return text_search(grammar_, read_text_to_find()).without;
    if (cursor_.accept("%marker")) return marker(parts_of(read_argument()));
    if (constrained_ && cursor_.accept("%constraint")) return *constrained_;
    if (is_name_character(cursor_.peek())) return grammar_.rule(rule_of(read_name()));
    cursor_.fail(
        "a literal, a class, a name, `.`, `(`, `<[`, `%json`, `%regex`, `%lark`, `%lark_string`, `%until`, "
        "`%without` or `%marker`");
  }

  std::string read_literal() {
    std::string text;
    cursor_.skip(1);
    while (!cursor_.accept("\"")) {
      if (cursor_.at_end()) cursor_.fail("`\"`", "close the literal");
      utf8::append(text, read_character());
    }
    return text;
  }

  std::string read_argument() {
    skip_space();
    if (cursor_.peek() != '"') cursor_.fail("a literal");
    return read_literal();
  }

  char32_t read_character() {
    if (!cursor_.accept("\\")) return cursor_.character();
    if (cursor_.accept("n")) return '\n';
    if (cursor_.accept("r")) return '\r';
    if (cursor_.accept("t")) return '\t';
    const std::size_t digits = cursor_.peek() == 'x'   ? 2
                               : cursor_.peek() == 'u' ? 4
                               : cursor_.peek() == 'U' ? 8
                                                       : 0;
    if (digits == 0) {
      if (std::string_view("\"\\[]^-").find(cursor_.peek()) == std::string_view::npos || cursor_.at_end())
        cursor_.fail("an escape: \\n, \\r, \\t, \\x, \\u, \\U, \\\\, \\\", \\[, \\], \\^ or \\-");
      return cursor_.character();
    }
    cursor_.skip(1);
    const char32_t value = cursor_.hex(digits);
    if (value > CodePoints::kLast || (value >= 0xD800 && value <= 0xDFFF))
      cursor_.fail("a Unicode character before this");
    return value;
  }

  CodePoints read_class() {
    cursor_.skip(1);
    const bool negated = cursor_.accept("^");
    CodePoints set;
    while (!cursor_.accept("]")) {
      if (cursor_.at_end()) cursor_.fail("`]`", "close the class");
      const char32_t first = read_character();
      char32_t last = first;
      if (cursor_.peek() == '-' && cursor_.peek(1) != ']') {
        cursor_.skip(1);
        last = read_character();
      }
      if (last < first) cursor_.fail("a range in order before this");
      set.add(first, last);
    }
    return negated ? set.complement() : set;
  }

  ExprId read_token() {
    const std::optional<std::uint32_t> id = cursor_.digits(10, 9);
    if (!id || !cursor_.accept("]>")) cursor_.fail("a token id, then `]>`");
    return grammar_.control(static_cast<TokenId>(*id));
  }

  // The schema ends with the brace that closes its first brace.
  ExprId read_schema() {
    skip_space();
    if (cursor_.peek() != '{') cursor_.fail("a JSON Schema as an object");
    const std::string_view rest = cursor_.rest();
    std::size_t depth = 0;
    bool in_text = false;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      if (in_text && rest[i] == '\\') {
        ++i;
      } else if (rest[i] == '"') {
        in_text = !in_text;
      } else if (!in_text && rest[i] == '{') {
        ++depth;
      } else if (!in_text && rest[i] == '}' && --depth == 0) {
        cursor_.skip(i + 1);
        return json_schema_expr(grammar_, rest.substr(0, i + 1), JsonSpace::flexible);
      }
    }
    cursor_.fail("a complete JSON object", "close the schema's braces");
  }

  ExprId read_regular_expression() {
    const std::string pattern = read_argument();
    return matching_text(grammar_, read_regex("the regular expression in the grammar", pattern));
  }

  ExprId read_lark_string() {
    JsonGrammar json(grammar_, JsonSpace::flexible);
    return json.quoted(
        lark_expr(grammar_, read_argument(), [&](const CodePoints& set) { return json.character(set); }));
  }

  std::string read_text_to_find() {
    std::string text = read_argument();
    if (text.empty()) cursor_.fail("a text that is not empty before this");
    return text;
  }

  // Any text up to the given text, or up to the control tokens in it.
  ExprId read_until() {
    const std::string text = read_text_to_find();
    const TextSearch search = text_search(grammar_, text);
    std::vector<ByteVocabulary::Part> parts = parts_of(text);
    if (!parts.front().control) return search.until;
    return grammar_.choice({search.until, grammar_.sequence({search.without, marker(parts)})});
  }

  std::vector<ByteVocabulary::Part> parts_of(const std::string& text) const {
    if (vocabulary_ != nullptr && !text.empty()) {
      if (std::vector<ByteVocabulary::Part> parts = vocabulary_->parts_of(text); !parts.empty()) return parts;
    }
    return {{.text = text}};
  }

  ExprId marker(const std::vector<ByteVocabulary::Part>& parts) {
    std::vector<ExprId> sequence;
    for (const ByteVocabulary::Part& part : parts)
      sequence.push_back(part.control ? grammar_.control(*part.control) : grammar_.text(part.text));
    return grammar_.sequence(std::move(sequence));
  }

  TextCursor cursor_;
  ByteGrammar& grammar_;
  const ByteVocabulary* vocabulary_;
  std::optional<ExprId> constrained_;
  std::map<std::string, Rule> rules_;
};

}  // namespace

ExprId gbnf_expr(ByteGrammar& grammar, std::string_view text, const ByteVocabulary* vocabulary,
                 std::optional<ExprId> constrained) {
  return GbnfReader(grammar, text, vocabulary, constrained).read();
}

}  // namespace tp::constraint
