// Executes statements. Expressions are in expressions.cc.
#include "model/chat/jinja/evaluator.h"

#include "model/chat/jinja/operators.h"
#include "model/chat/jinja/printing.h"

#include <fmt/format.h>

namespace tp::jinja {

Evaluator::Evaluator(Heap& heap, Names globals)
    : heap_(heap), budget_(heap.budget()), globals_(std::move(globals)) {}

MarkedText Evaluator::render(const Body& body, Names variables) {
  MarkedText text;
  out_ = &text;
  Scope& root = new_scope(nullptr);
  root.names = std::move(variables);
  run(body, root);
  return text;
}

Evaluator::Scope& Evaluator::new_scope(Scope* parent) {
  budget_.spend(4 * Budget::kElement);
  return scopes_.emplace_back(Scope{parent, {}});
}

Evaluator::Flow Evaluator::run(const Body& body, Scope& scope) {
  const Budget::Level level(budget_);
  for (const Statement& statement : body) {
    budget_.spend(Budget::kStep);
    position_ = statement.position;
    const Flow flow = std::visit([&](const auto& node) { return execute(node, scope); }, statement.node);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const Text& statement, Scope&) {
  budget_.spend(statement.text.size());
  out_->append(statement.text);
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const Print& statement, Scope& scope) {
  const Value value = evaluate(*statement.expression, scope);
  position_ = statement.expression->position;
  out_->append(printed(value, budget_));
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const If& statement, Scope& scope) {
  for (const auto& [condition, body] : statement.branches) {
    if (condition == nullptr || is_true(evaluate(*condition, scope))) return run(body, scope);
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const For& statement, Scope& scope) {
  const Value iterable = evaluate(*statement.iterable, scope);
  position_ = statement.iterable->position;
  run_loop(statement, iterable, 1, scope);
  return Flow::next;
}

// The elements that meet the loop's condition.
std::vector<Value> Evaluator::loop_items(const For& statement, const Value& iterable, Scope& scope) {
  std::vector<Value> items = elements_of(iterable, budget_);
  if (statement.condition == nullptr) return items;
  std::vector<Value> kept;
  for (const Value& item : items) {
    Scope& inner = new_scope(&scope);
    assign(statement.target, item, inner);
    if (is_true(evaluate(*statement.condition, inner))) kept.push_back(item);
  }
  return kept;
}

void Evaluator::run_loop(const For& statement, const Value& iterable, std::size_t depth, Scope& scope) {
  LoopState* loop = heap_.make_loop(loop_items(statement, iterable, scope));
  loop->depth = depth;
  if (statement.is_recursive) {
    loop->recurse = [this, &statement, depth, &scope](Arguments& arguments) -> Value {
      const Value inner = arguments.at(0, "iterable");
      arguments.check_all_taken();
      MarkedText text;
      MarkedText* const outer = std::exchange(out_, &text);
      run_loop(statement, inner, depth + 1, scope);
      out_ = outer;
      return text;
    };
  }
  for (; loop->index < loop->items.size(); ++loop->index) {
    Scope& inner = new_scope(&scope);
    inner.names["loop"] = loop;
    assign(statement.target, loop->items[loop->index], inner);
    if (run(statement.body, inner) == Flow::break_loop) break;
  }
  if (loop->items.empty()) run(statement.otherwise, new_scope(&scope));
}

Evaluator::Flow Evaluator::execute(const Set& statement, Scope& scope) {
  const Value value = evaluate(*statement.value, scope);
  position_ = statement.value->position;
  assign(statement.target, value, scope);
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const SetBlock& statement, Scope& scope) {
  assign(statement.target, filtered(captured(statement.body, scope), statement.filter, scope), scope);
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const FilterBlock& statement, Scope& scope) {
  out_->append(filtered(captured(statement.body, scope), statement.filter, scope));
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const With& statement, Scope& scope) {
  Scope& inner = new_scope(&scope);
  for (const auto& [target, expression] : statement.assignments)
    assign(target, evaluate(*expression, scope), inner);
  return run(statement.body, inner);
}

Evaluator::Flow Evaluator::execute(const Macro& statement, Scope& scope) {
  scope.names[statement.name] = make_macro(statement, scope);
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const CallBlock& statement, Scope& scope) {
  const Call& node = std::get<Call>(statement.call->node);
  const Value callee = evaluate(*node.callee, scope);
  Arguments arguments = evaluate_arguments(node.arguments, scope);
  arguments.keywords.emplace_back("caller", make_macro(statement.caller, scope));
  position_ = statement.call->position;
  out_->append(printed(call(callee, arguments), budget_));
  return Flow::next;
}

MarkedText Evaluator::captured(const Body& body, Scope& scope) {
  MarkedText text;
  MarkedText* const outer = std::exchange(out_, &text);
  run(body, new_scope(&scope));
  out_ = outer;
  return text;
}

MarkedText Evaluator::filtered(MarkedText text, const ExpressionPtr& filter, Scope& scope) {
  if (filter == nullptr) return text;
  block_text_ = std::move(text);
  const Value result = evaluate(*filter, scope);
  return printed(result, budget_);
}

void Evaluator::assign(const Target& target, const Value& value, Scope& scope) {
  if (target.parts.empty() && !target.member) {
    scope.names[target.name] = value;
    return;
  }
  if (target.member) {
    Namespace* names = evaluate(Name{target.name}, scope).pointer<Namespace>();
    if (names == nullptr) {
      throw EvaluationError(fmt::format("cannot set {}.{}: only members of a namespace can be set",
                                        target.name, *target.member));
    }
    names->members[*target.member] = value;
    return;
  }
  const std::vector<Value> parts = elements_of(value, budget_);
  if (parts.size() != target.parts.size()) {
    throw EvaluationError(
        fmt::format("expected {} values to assign, found {}", target.parts.size(), parts.size()));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i], scope);
}

Value Evaluator::make_macro(const Macro& macro, Scope& scope) {
  return heap_.make_callable(
      [this, &macro, &scope](Arguments& arguments) { return call_macro(macro, arguments, scope); });
}

Value Evaluator::call_macro(const Macro& macro, Arguments& arguments, Scope& defined_in) {
  Scope& scope = new_scope(&defined_in);
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& [name, otherwise] = macro.parameters[i];
    if (const Value* given = arguments.find(i, name))
      scope.names[name] = *given;
    else if (otherwise != nullptr)
      scope.names[name] = evaluate(*otherwise, scope);
    else
      scope.names[name] = Value::undefined(fmt::format("the parameter '{}' was not given", name));
  }
  if (const Value* caller = arguments.find(arguments.positional.size(), "caller"))
    scope.names["caller"] = *caller;
  arguments.check_all_taken();
  return captured(macro.body, scope);
}

}  // namespace tp::jinja
