#include "model/chat/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>

namespace tp::jinja {
namespace {

constexpr std::size_t kMaxDepth = 100;   // nested brackets
constexpr std::size_t kMaxNodes = 2000;  // per expression, because trees are destroyed recursively

}  // namespace

// One level of the parser's recursion.
class ExpressionParser::Level {
 public:
  explicit Level(ExpressionParser& parser) : parser_(parser) {
    if (parser.depth_ == 0) parser.nodes_ = 0;
    if (parser.depth_ == kMaxDepth) {
      throw SyntaxError(parser.tokens_.current().position,
                        fmt::format("the expression is nested deeper than {} levels", kMaxDepth));
    }
    ++parser.depth_;
  }
  ~Level() { --parser_.depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  ExpressionParser& parser_;
};

ExpressionPtr ExpressionParser::make(const Position& position, Expression::Node node) {
  if (++nodes_ > kMaxNodes)
    throw SyntaxError(position, fmt::format("the expression has more than {} parts", kMaxNodes));
  return std::make_unique<Expression>(Expression{position, std::move(node)});
}

ExpressionPtr ExpressionParser::parse() {
  const Level level(*this);
  ExpressionPtr expression = parse_or();
  while (tokens_.is_word("if")) {
    const Position position = tokens_.take().position;
    ExpressionPtr condition = parse_or();
    ExpressionPtr otherwise = tokens_.skip_word("else") ? parse() : nullptr;
    expression =
        make(position, Conditional{std::move(condition), std::move(expression), std::move(otherwise)});
  }
  return expression;
}

ExpressionPtr ExpressionParser::parse_tuple(bool with_conditional) {
  const Level level(*this);
  const Position position = tokens_.current().position;
  const auto parse_one = [&] { return with_conditional ? parse() : parse_or(); };
  ExpressionPtr first = parse_one();
  if (!tokens_.is_symbol(",")) return first;
  ListDisplay tuple{{}, true};
  tuple.items.push_back(std::move(first));
  while (tokens_.skip_symbol(",")) {
    const TokenKind kind = tokens_.current().kind;
    if (kind == TokenKind::block_end || kind == TokenKind::print_end || tokens_.is_symbol(")")) break;
    tuple.items.push_back(parse_one());
  }
  return make(position, std::move(tuple));
}

ExpressionPtr ExpressionParser::parse_or() {
  const Level level(*this);
  ExpressionPtr left = parse_and();
  while (tokens_.is_word("or")) {
    const Position position = tokens_.take().position;
    ExpressionPtr right = parse_and();
    left = make(position, Logical{false, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (tokens_.is_word("and")) {
    const Position position = tokens_.take().position;
    ExpressionPtr right = parse_not();
    left = make(position, Logical{true, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!tokens_.is_word("not")) return parse_comparison();
  const Level level(*this);
  const Position position = tokens_.take().position;
  return make(position, Unary{'!', parse_not()});
}

ExpressionPtr ExpressionParser::parse_comparison() {
  static constexpr std::array<std::string_view, 6> kOperators = {"==", "!=", "<", "<=", ">", ">="};
  const Position position = tokens_.current().position;
  Comparison comparison{parse_binary(), {}};
  while (true) {
    const Token& token = tokens_.current();
    std::string operation;
    if (token.kind == TokenKind::symbol &&
        std::find(kOperators.begin(), kOperators.end(), token.value) != kOperators.end()) {
      operation = tokens_.take().value;
    } else if (tokens_.skip_word("in")) {
      operation = "in";
    } else if (tokens_.is_word("not") && tokens_.is_word_after("in")) {
      tokens_.take();
      tokens_.take();
      operation = "not in";
    } else {
      break;
    }
    comparison.others.emplace_back(operation, parse_binary());
  }
  if (comparison.others.empty()) return std::move(comparison.first);
  return make(position, std::move(comparison));
}

// Powers are left-associative and weaker than a sign, unlike Python's.
ExpressionPtr ExpressionParser::parse_binary(std::size_t level) {
  static constexpr std::array<std::string_view, 4> kLevels[] = {
      {"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
  if (level == std::size(kLevels)) return parse_unary();
  const auto is_operator = [&](std::string_view symbol) { return tokens_.is_symbol(symbol); };
  ExpressionPtr left = parse_binary(level + 1);
  while (std::ranges::any_of(kLevels[level], is_operator)) {
    const Token token = tokens_.take();
    ExpressionPtr right = parse_binary(level + 1);
    left = make(token.position, Binary{token.value, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  const Level level(*this);
  ExpressionPtr expression;
  if (tokens_.is_symbol("-") || tokens_.is_symbol("+")) {
    const Token sign = tokens_.take();
    expression = make(sign.position, Unary{sign.value.front(), parse_unary(false)});
  } else {
    expression = parse_primary();
  }
  expression = parse_postfix(std::move(expression));
  if (!with_filters) return expression;
  while (true) {
    if (tokens_.is_symbol("|"))
      expression = parse_filter(std::move(expression));
    else if (tokens_.is_word("is"))
      expression = parse_test(std::move(expression));
    else if (tokens_.is_symbol("("))
      expression = parse_postfix(std::move(expression));
    else
      return expression;
  }
}

ExpressionPtr ExpressionParser::parse_primary() {
  switch (tokens_.current().kind) {
    case TokenKind::name:
      return parse_name();
    case TokenKind::string:
      return parse_strings();
    case TokenKind::integer:
    case TokenKind::number:
      return parse_number();
    default:
      break;
  }
  if (tokens_.is_symbol("(")) return parse_brackets();
  if (tokens_.is_symbol("[")) return parse_list();
  if (tokens_.is_symbol("{")) return parse_dict();
  tokens_.fail_expecting("an expression");
}

ExpressionPtr ExpressionParser::parse_name() {
  const Token token = tokens_.take();
  const std::string& name = token.value;
  if (name == "true" || name == "True") return make(token.position, Literal{true});
  if (name == "false" || name == "False") return make(token.position, Literal{false});
  if (name == "none" || name == "None") return make(token.position, Literal{None{}});
  return make(token.position, Name{name});
}

ExpressionPtr ExpressionParser::parse_number() {
  const Token token = tokens_.take();
  if (token.kind == TokenKind::number)
    return make(token.position, Literal{std::strtod(token.value.c_str(), nullptr)});
  std::int64_t value = 0;
  const char* const end = token.value.data() + token.value.size();
  if (std::from_chars(token.value.data(), end, value).ec != std::errc())
    throw SyntaxError(token.position, "the number does not fit into 64 bits");
  return make(token.position, Literal{value});
}

// Adjacent strings are joined: 'a' 'b' is 'ab'.
ExpressionPtr ExpressionParser::parse_strings() {
  const Position position = tokens_.current().position;
  std::string text;
  while (tokens_.current().kind == TokenKind::string) text += tokens_.take().value;
  return make(position, Literal{std::move(text)});
}

// Parses an expression in brackets, or a tuple.
ExpressionPtr ExpressionParser::parse_brackets() {
  const Position position = tokens_.take().position;
  if (tokens_.skip_symbol(")")) return make(position, ListDisplay{{}, true});
  ExpressionPtr expression = parse_tuple();
  tokens_.expect_symbol(")");
  return expression;
}

ExpressionPtr ExpressionParser::parse_list() {
  const Position position = tokens_.take().position;
  ListDisplay list;
  while (!tokens_.is_symbol("]")) {
    list.items.push_back(parse());
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol("]");
  return make(position, std::move(list));
}

ExpressionPtr ExpressionParser::parse_dict() {
  const Position position = tokens_.take().position;
  DictDisplay dict;
  while (!tokens_.is_symbol("}")) {
    ExpressionPtr key = parse();
    tokens_.expect_symbol(":");
    dict.members.emplace_back(std::move(key), parse());
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol("}");
  return make(position, std::move(dict));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr expression) {
  while (true) {
    const Position position = tokens_.current().position;
    if (tokens_.is_symbol("."))
      expression = parse_member(std::move(expression));
    else if (tokens_.is_symbol("["))
      expression = parse_subscript(std::move(expression));
    else if (tokens_.skip_symbol("("))
      expression = make(position, Call{std::move(expression), parse_arguments()});
    else
      return expression;
  }
}

// Parses a.b, or a.0 for a[0].
ExpressionPtr ExpressionParser::parse_member(ExpressionPtr object) {
  tokens_.expect_symbol(".");
  const Position position = tokens_.current().position;
  if (tokens_.current().kind == TokenKind::integer)
    return make(position, Item{std::move(object), parse_number()});
  return make(position, Attribute{std::move(object), tokens_.take_name()});
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  const Position position = tokens_.take().position;
  const auto bound = [&]() -> ExpressionPtr {
    return tokens_.is_symbol(":") || tokens_.is_symbol("]") ? nullptr : parse();
  };
  ExpressionPtr first = bound();
  if (!tokens_.is_symbol(":")) {
    if (first == nullptr) tokens_.fail_expecting("an expression");
    tokens_.expect_symbol("]");
    return make(position, Item{std::move(object), std::move(first)});
  }
  tokens_.take();
  ExpressionPtr stop = bound();
  ExpressionPtr step = tokens_.skip_symbol(":") ? bound() : nullptr;
  tokens_.expect_symbol("]");
  return make(position, Slice{std::move(object), std::move(first), std::move(stop), std::move(step)});
}

ArgumentList ExpressionParser::parse_arguments() {
  ArgumentList arguments;
  while (!tokens_.is_symbol(")")) {
    if (tokens_.is_symbol("*") || tokens_.is_symbol("**"))
      throw SyntaxError(tokens_.current().position, "arguments with * and ** are not supported");
    const Position position = tokens_.current().position;
    ExpressionPtr value = parse();
    const Name* name = std::get_if<Name>(&value->node);
    if (tokens_.is_symbol("=") && name != nullptr) {
      tokens_.take();
      std::string keyword = name->name;
      arguments.keywords.emplace_back(std::move(keyword), parse());
    } else if (arguments.keywords.empty()) {
      arguments.positional.push_back(std::move(value));
    } else {
      throw SyntaxError(position, "expected an argument with a name, since there is one before it");
    }
    if (!tokens_.skip_symbol(",")) break;
  }
  tokens_.expect_symbol(")");
  return arguments;
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr subject) {
  const Level level(*this);
  while (tokens_.is_symbol("|")) subject = parse_filter(std::move(subject));
  return subject;
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr subject) {
  tokens_.expect_symbol("|");
  const Position position = tokens_.current().position;
  Filter filter{std::move(subject), tokens_.take_name(), {}};
  if (tokens_.skip_symbol("(")) filter.arguments = parse_arguments();
  return make(position, std::move(filter));
}

ExpressionPtr ExpressionParser::parse_block_filters() {
  const Level level(*this);
  const Position position = tokens_.current().position;
  Filter filter{nullptr, tokens_.take_name(), {}};
  if (tokens_.skip_symbol("(")) filter.arguments = parse_arguments();
  return parse_filters(make(position, std::move(filter)));
}

// Parses `x is test`, `x is not test(a, b)`, `x is test argument`.
ExpressionPtr ExpressionParser::parse_test(ExpressionPtr subject) {
  tokens_.expect_word("is");
  const bool is_negated = tokens_.skip_word("not");
  const Position position = tokens_.current().position;
  Test test{std::move(subject), tokens_.take_name(), {}, is_negated};
  const TokenKind kind = tokens_.current().kind;
  const bool ends = tokens_.is_word("else") || tokens_.is_word("or") || tokens_.is_word("and");
  const bool begins = (kind == TokenKind::name && !ends) || kind == TokenKind::string ||
                      kind == TokenKind::integer || kind == TokenKind::number || tokens_.is_symbol("[") ||
                      tokens_.is_symbol("{");
  if (tokens_.skip_symbol("(")) {
    test.arguments = parse_arguments();
  } else if (begins) {
    if (tokens_.is_word("is"))
      throw SyntaxError(tokens_.current().position,
                        "tests cannot follow one another; put the first in brackets");
    test.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  return make(position, std::move(test));
}

}  // namespace tp::jinja
