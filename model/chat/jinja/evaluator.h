// Renders a template's syntax tree.
#pragma once

#include "model/chat/jinja/ast.h"
#include "model/chat/jinja/value.h"

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace tp::jinja {

using Names = std::map<std::string, Value, std::less<>>;

// One rendering. Errors are EvaluationErrors; then position() is their place in the template.
class Evaluator {
 public:
  Evaluator(Heap& heap, Names globals);

  MarkedText render(const Body& body, Names variables);

  Position position() const { return position_; }

 private:
  enum class Flow : std::uint8_t { next, break_loop, continue_loop };

  struct Scope {
    Scope* parent = nullptr;
    Names names;
  };

  // Scopes live until the end, because macros refer to their enclosing scopes.
  Scope& new_scope(Scope* parent);

  Flow run(const Body& body, Scope& scope);
  Flow execute(const Text& statement, Scope& scope);
  Flow execute(const Print& statement, Scope& scope);
  Flow execute(const If& statement, Scope& scope);
  Flow execute(const For& statement, Scope& scope);
  Flow execute(const Set& statement, Scope& scope);
  Flow execute(const SetBlock& statement, Scope& scope);
  Flow execute(const Macro& statement, Scope& scope);
  Flow execute(const CallBlock& statement, Scope& scope);
  Flow execute(const FilterBlock& statement, Scope& scope);
  Flow execute(const With& statement, Scope& scope);
  Flow execute(const Break&, Scope&) { return Flow::break_loop; }
  Flow execute(const Continue&, Scope&) { return Flow::continue_loop; }

  void run_loop(const For& statement, const Value& iterable, std::size_t depth, Scope& scope);
  std::vector<Value> loop_items(const For& statement, const Value& iterable, Scope& scope);
  // The output of a body, which runs in its own scope.
  MarkedText captured(const Body& body, Scope& scope);
  MarkedText filtered(MarkedText text, const ExpressionPtr& filter, Scope& scope);
  void assign(const Target& target, const Value& value, Scope& scope);
  Value make_macro(const Macro& macro, Scope& scope);
  Value call_macro(const Macro& macro, Arguments& arguments, Scope& defined_in);

  Value evaluate(const Expression& expression, Scope& scope);
  Value evaluate(const Literal& node, Scope& scope);
  Value evaluate(const Name& node, Scope& scope);
  Value evaluate(const ListDisplay& node, Scope& scope);
  Value evaluate(const DictDisplay& node, Scope& scope);
  Value evaluate(const Unary& node, Scope& scope);
  Value evaluate(const Binary& node, Scope& scope);
  Value evaluate(const Logical& node, Scope& scope);
  Value evaluate(const Comparison& node, Scope& scope);
  Value evaluate(const Conditional& node, Scope& scope);
  Value evaluate(const Attribute& node, Scope& scope);
  Value evaluate(const Item& node, Scope& scope);
  Value evaluate(const Slice& node, Scope& scope);
  Value evaluate(const Call& node, Scope& scope);
  Value evaluate(const Filter& node, Scope& scope);
  Value evaluate(const Test& node, Scope& scope);

  Arguments evaluate_arguments(const ArgumentList& list, Scope& scope);
  Value call(const Value& callee, Arguments& arguments);

  Heap& heap_;
  Budget& budget_;
  Names globals_;
  std::deque<Scope> scopes_;
  MarkedText* out_ = nullptr;
  Value block_text_;  // input of the first filter of a filter block
  Position position_;
};

}  // namespace tp::jinja
