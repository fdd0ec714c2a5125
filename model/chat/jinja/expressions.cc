// Evaluates expressions, as a part of Evaluator.
#include "model/chat/jinja/evaluator.h"
#include "model/chat/jinja/library.h"
#include "model/chat/jinja/operators.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp::jinja {

Value Evaluator::evaluate(const Expression& expression, Scope& scope) {
  const Budget::Level level(budget_);
  budget_.spend(Budget::kStep);
  position_ = expression.position;
  return std::visit([&](const auto& node) { return evaluate(node, scope); }, expression.node);
}

Value Evaluator::evaluate(const Literal& node, Scope&) { return node.value; }

Value Evaluator::evaluate(const Name& node, Scope& scope) {
  for (const Scope* at = &scope; at != nullptr; at = at->parent) {
    const auto found = at->names.find(node.name);
    if (found != at->names.end()) return found->second;
  }
  const auto global = globals_.find(node.name);
  if (global != globals_.end()) return global->second;
  return Value::undefined(fmt::format("'{}' is not defined", node.name));
}

Value Evaluator::evaluate(const ListDisplay& node, Scope& scope) {
  std::vector<Value> items;
  for (const ExpressionPtr& item : node.items) items.push_back(evaluate(*item, scope));
  return heap_.make_list(std::move(items), node.is_tuple ? List::Kind::tuple : List::Kind::list);
}

Value Evaluator::evaluate(const DictDisplay& node, Scope& scope) {
  const Position position = position_;
  std::vector<std::pair<Value, Value>> members;
  for (const auto& [key_node, value_node] : node.members) {
    const Value key = evaluate(*key_node, scope);
    Value value = evaluate(*value_node, scope);
    position_ = position;
    const bool can_be_key =
        key.is_text() || key.is<None>() || key.is<bool>() || key.is<std::int64_t>() || key.is<double>();
    if (!can_be_key)
      throw EvaluationError(fmt::format("a value of type {} cannot be a key", key.type_name()));
    const auto known = std::find_if(members.begin(), members.end(),
                                    [&](const auto& member) { return equal(member.first, key, budget_); });
    if (known != members.end())
      known->second = std::move(value);
    else
      members.emplace_back(key, std::move(value));
  }
  return heap_.make_dict(std::move(members));
}

Value Evaluator::evaluate(const Unary& node, Scope& scope) {
  const Value operand = evaluate(*node.operand, scope);
  return node.operation == '!' ? Value(!is_true(operand)) : apply_sign(node.operation, operand);
}

Value Evaluator::evaluate(const Binary& node, Scope& scope) {
  const Position position = position_;
  const Value left = evaluate(*node.left, scope);
  const Value right = evaluate(*node.right, scope);
  position_ = position;
  return apply_operator(node.operation, left, right, heap_);
}

Value Evaluator::evaluate(const Logical& node, Scope& scope) {
  Value left = evaluate(*node.left, scope);
  return is_true(left) == node.is_and ? evaluate(*node.right, scope) : left;
}

Value Evaluator::evaluate(const Comparison& node, Scope& scope) {
  const Position position = position_;
  Value left = evaluate(*node.first, scope);
  for (const auto& [operation, operand] : node.others) {
    Value right = evaluate(*operand, scope);
    position_ = position;
    if (!compare(operation, left, right, budget_)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::evaluate(const Conditional& node, Scope& scope) {
  if (is_true(evaluate(*node.condition, scope))) return evaluate(*node.then, scope);
  if (node.otherwise != nullptr) return evaluate(*node.otherwise, scope);
  return Value::undefined("the condition does not hold and there is no 'else'");
}

Value Evaluator::evaluate(const Attribute& node, Scope& scope) {
  const Position position = position_;
  const Value object = evaluate(*node.object, scope);
  position_ = position;
  return member_of(object, node.name, heap_);
}

Value Evaluator::evaluate(const Item& node, Scope& scope) {
  const Position position = position_;
  const Value object = evaluate(*node.object, scope);
  const Value key = evaluate(*node.key, scope);
  position_ = position;
  return item_of(object, key, heap_);
}

Value Evaluator::evaluate(const Slice& node, Scope& scope) {
  const Position position = position_;
  const Value object = evaluate(*node.object, scope);
  SliceBounds bounds;
  const auto bound = [&](const ExpressionPtr& expression) -> std::optional<std::int64_t> {
    const Value value = expression == nullptr ? Value() : evaluate(*expression, scope);
    if (value.is<None>()) return std::nullopt;
    return integer_of(value, "a bound of a slice");
  };
  bounds.start = bound(node.start);
  bounds.stop = bound(node.stop);
  bounds.step = bound(node.step).value_or(1);
  position_ = position;
  return slice_of(object, bounds, heap_);
}

Arguments Evaluator::evaluate_arguments(const ArgumentList& list, Scope& scope) {
  Arguments arguments;
  for (const ExpressionPtr& argument : list.positional)
    arguments.positional.push_back(evaluate(*argument, scope));
  for (const auto& [name, argument] : list.keywords)
    arguments.keywords.emplace_back(name, evaluate(*argument, scope));
  return arguments;
}

Value Evaluator::evaluate(const Call& node, Scope& scope) {
  const Position position = position_;
  const Value callee = evaluate(*node.callee, scope);
  Arguments arguments = evaluate_arguments(node.arguments, scope);
  position_ = position;
  return call(callee, arguments);
}

Value Evaluator::call(const Value& callee, Arguments& arguments) {
  const Budget::Level level(budget_);
  if (const Callable* callable = callee.pointer<Callable>()) return callable->call(arguments);
  const LoopState* loop = callee.pointer<LoopState>();
  if (loop != nullptr && loop->recurse) return loop->recurse(arguments);
  if (const auto* undefined = callee.get_if<Undefined>())
    throw EvaluationError(fmt::format("{}, so it cannot be called", *undefined->reason));
  throw EvaluationError(fmt::format("a value of type {} cannot be called", callee.type_name()));
}

Value Evaluator::evaluate(const Filter& node, Scope& scope) {
  const Position position = position_;
  const Value subject = node.subject == nullptr ? block_text_ : evaluate(*node.subject, scope);
  Arguments arguments = evaluate_arguments(node.arguments, scope);
  position_ = position;
  return apply_filter(node.name, subject, arguments, heap_);
}

Value Evaluator::evaluate(const Test& node, Scope& scope) {
  const Position position = position_;
  const Value subject = evaluate(*node.subject, scope);
  Arguments arguments = evaluate_arguments(node.arguments, scope);
  position_ = position;
  return apply_test(node.name, subject, arguments, heap_) != node.is_negated;
}

}  // namespace tp::jinja
