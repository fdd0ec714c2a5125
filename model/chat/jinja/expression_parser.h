// Expressions of a template, from tokens to a tree.
#pragma once

#include "model/chat/jinja/ast.h"
#include "model/chat/jinja/token_stream.h"

namespace tp::jinja {

// Parses by Jinja's grammar: filters and tests bind tighter than operators.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // With `a if b else c`.
  ExpressionPtr parse();
  // Without it: what a loop goes over may be followed by `if`.
  ExpressionPtr parse_or();
  // a, b: a tuple without brackets, or one expression.
  ExpressionPtr parse_tuple(bool with_conditional = true);
  // `|name(...)` again and again; the first of them filters `subject`.
  ExpressionPtr parse_filters(ExpressionPtr subject);
  // `name(...)|name(...)`: filters of a block's text.
  ExpressionPtr parse_block_filters();
  // What stands between ( and ), which are taken too.
  ArgumentList parse_arguments();
  // Expressions of a unary operator: a name with calls, members and filters.
  ExpressionPtr parse_unary(bool with_filters = true);

 private:
  class Level;

  ExpressionPtr make(const Position& position, Expression::Node node);
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_number();
  ExpressionPtr parse_strings();
  ExpressionPtr parse_brackets();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr expression);
  ExpressionPtr parse_member(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_filter(ExpressionPtr subject);
  ExpressionPtr parse_test(ExpressionPtr subject);

  TokenStream& tokens_;
  std::size_t depth_ = 0;  // of the parser's own recursion
  std::size_t nodes_ = 0;  // of the outermost expression
};

}  // namespace tp::jinja
