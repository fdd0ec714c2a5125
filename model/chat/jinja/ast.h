// The syntax tree of a template.
#pragma once

#include "model/chat/jinja/position.h"
#include "model/chat/jinja/value.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tp::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {  // [a, b] or (a, b)
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};
struct DictDisplay {  // {a: b}
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> members;
};
struct Unary {
  char operation;  // '-', '+', or '!' for `not`
  ExpressionPtr operand;
};
struct Binary {
  std::string operation;  // + - * / // % ** ~
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Logical {
  bool is_and;
  ExpressionPtr left;
  ExpressionPtr right;
};
struct Comparison {  // a < b <= c: each operand is compared with the previous one
  ExpressionPtr first;
  std::vector<std::pair<std::string, ExpressionPtr>> others;  // == != < <= > >= in, not in
};
struct Conditional {
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;  // may be null
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Item {
  ExpressionPtr object;
  ExpressionPtr key;
};
struct Slice {  // bounds may be null
  ExpressionPtr object;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
};
struct Call {
  ExpressionPtr callee;
  ArgumentList arguments;
};
struct Filter {
  ExpressionPtr subject;  // null at the start of a filter block: the block's text
  std::string name;
  ArgumentList arguments;
};
struct Test {
  ExpressionPtr subject;
  std::string name;
  ArgumentList arguments;
  bool is_negated = false;
};

struct Expression {
  using Node = std::variant<Literal, Name, ListDisplay, DictDisplay, Unary, Binary, Logical, Comparison,
                            Conditional, Attribute, Item, Slice, Call, Filter, Test>;
  Position position;
  Node node;
};

// An assignment target: a name, a member of a namespace, or a tuple of targets.
struct Target {
  std::string name;  // empty for a tuple
  std::optional<std::string> member{};
  std::vector<Target> parts{};
};

struct Statement;
using Body = std::vector<Statement>;

struct Text {
  std::string text;
};
struct Print {
  ExpressionPtr expression;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;  // `else` has a null condition
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // may be null
  Body body;
  Body otherwise;
  bool is_recursive = false;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  Body body;
  ExpressionPtr filter;  // may be null
};
struct Macro {
  std::string name;                                               // empty for the body of a call block
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // defaults may be null
  Body body;
};
struct CallBlock {
  Macro caller;
  ExpressionPtr call;  // a Call
};
struct FilterBlock {
  Body body;
  ExpressionPtr filter;
};
struct With {  // also a `generation` block, whose names are local to it
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Node =
      std::variant<Text, Print, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Break, Continue>;
  Position position;
  Node node;
};

}  // namespace tp::jinja
