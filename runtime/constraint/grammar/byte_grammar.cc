#include "runtime/constraint/grammar/byte_grammar.h"

#include "tp/internal/require.h"

#include <utility>

namespace tp::constraint {

std::string control_text(TokenId id) { return fmt::format("\xFF{}\xFF", id); }

ExprId ByteGrammar::add(Expr expr) {
  text_bytes_ += expr.text.size() + expr.parts.size();
  require<RequestError>(exprs_.size() < kMaxExprs && text_bytes_ <= kMaxTextBytes,
                        "the constraint is too large: expected at most {} parts when it is written out as a "
                        "grammar, found more; simplify it",
                        kMaxExprs);
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId ByteGrammar::never() { return add({}); }
ExprId ByteGrammar::empty() { return add({.kind = Expr::Kind::sequence}); }
ExprId ByteGrammar::bytes(const ByteSet& set) { return add({.kind = Expr::Kind::bytes, .set = set}); }

ExprId ByteGrammar::text(std::string_view text) {
  return add({.kind = Expr::Kind::text, .text = std::string(text)});
}

ExprId ByteGrammar::control(TokenId id) {
  controls_.push_back(id);
  return text(control_text(id));
}

ExprId ByteGrammar::sequence(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts.front();
  return add({.kind = Expr::Kind::sequence, .parts = std::move(parts)});
}

ExprId ByteGrammar::choice(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts.front();
  return add({.kind = Expr::Kind::choice, .parts = std::move(parts)});
}

ExprId ByteGrammar::repeat(ExprId part, std::uint32_t min, std::uint32_t max) {
  require<RequestError>((max == kUnbounded || max <= kMaxRepetitions) && min <= kMaxRepetitions,
                        "the constraint repeats a part {} times (expected at most {}); lower the bound, or "
                        "leave it out",
                        max == kUnbounded ? min : max, kMaxRepetitions);
  if (min == 1 && max == 1) return part;
  return add({.kind = Expr::Kind::repeat, .parts = {part}, .min = min, .max = max});
}

ExprId ByteGrammar::rule(RuleId rule) { return add({.kind = Expr::Kind::rule, .rule = rule}); }

ExprId ByteGrammar::counted(CountedSteps steps) {
  constexpr std::size_t kBitsPerUnit = 16;
  budget().charge(steps.table_bits() / kBitsPerUnit);
  if (steps.empty()) return never();
  text_bytes_ += steps.states().size();
  for (const CountedSteps::State& state : steps.states()) text_bytes_ += state.steps.size();
  return add({.kind = Expr::Kind::counted, .steps = std::make_shared<const CountedSteps>(std::move(steps))});
}

RuleId ByteGrammar::add_rule() {
  rules_.push_back(never());
  return static_cast<RuleId>(rules_.size() - 1);
}

ExprId ByteGrammar::as_rule(ExprId expr) {
  const RuleId id = add_rule();
  define(id, expr);
  return rule(id);
}

}  // namespace tp::constraint
