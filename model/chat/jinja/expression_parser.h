// Parses a template's expressions from tokens to a tree.
#pragma once

#include "model/chat/jinja/ast.h"
#include "model/chat/jinja/token_stream.h"

namespace tp::jinja {

// Follows Jinja's grammar: filters and tests bind tighter than operators.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // Parses an expression, including `a if b else c`.
  ExpressionPtr parse();
  // Parses an expression without `a if b else c`, because `if` may follow a loop's iterable.
  ExpressionPtr parse_or();
  // Parses one expression, or a tuple without brackets: a, b.
  ExpressionPtr parse_tuple(bool with_conditional = true);
  // Parses any number of filters `|name(...)`. The first one filters `subject`.
  ExpressionPtr parse_filters(ExpressionPtr subject);
  // Parses filters of a block's text: `name(...)|name(...)`.
  ExpressionPtr parse_block_filters();
  // Parses the arguments between ( and ), including the brackets.
  ArgumentList parse_arguments();
  // Parses a unary expression: an operand with signs, calls, members and filters.
  ExpressionPtr parse_unary(bool with_filters = true);

 private:
  class Level;

  ExpressionPtr make(const Position& position, Expression::Node node);
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  // Parses operands between binary operators, of which those of higher levels bind tighter.
  ExpressionPtr parse_binary(std::size_t level = 0);
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
  std::size_t depth_ = 0;  // current depth of recursion
  std::size_t nodes_ = 0;  // nodes of the current outermost expression
};

}  // namespace tp::jinja
