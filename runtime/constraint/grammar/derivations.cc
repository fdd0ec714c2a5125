#include "runtime/constraint/grammar/derivations.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace tp::constraint {
namespace {

using Kind = Expr::Kind;

// The least fixed point of a property that an expression has if one of its parts has it, or all of them.
class FixedPoint {
 public:
  explicit FixedPoint(const ByteGrammar& grammar)
      : grammar_(grammar),
        holds_(grammar.exprs(), false),
        missing_(grammar.exprs(), 1),
        users_(grammar.exprs()) {
    std::vector<std::vector<ExprId>> calls(grammar.rules());
    for (ExprId id = 0; id < grammar.exprs(); ++id) {
      const Expr& expr = grammar.expr(id);
      for (const ExprId part : expr.parts) users_[part].push_back(id);
      if (expr.kind == Kind::sequence) missing_[id] = expr.parts.size();
      if (expr.kind == Kind::rule) calls[expr.rule].push_back(id);
    }
    for (RuleId rule = 0; rule < grammar.rules(); ++rule) {
      std::vector<ExprId>& users = users_[grammar.definition(rule)];
      users.insert(users.end(), calls[rule].begin(), calls[rule].end());
    }
  }

  // `leaf`: whether an expression has the property regardless of its parts.
  template <class Leaf>
  std::vector<bool> solve(Leaf&& leaf) && {
    for (ExprId id = 0; id < grammar_.exprs(); ++id) {
      const Expr& expr = grammar_.expr(id);
      const bool is_empty = (expr.kind == Kind::sequence && expr.parts.empty()) ||
                            (expr.kind == Kind::repeat && (expr.min == 0 || expr.max == 0));
      if (is_empty || leaf(expr)) reach(id);
    }
    while (!open_.empty()) {
      const ExprId id = open_.back();
      open_.pop_back();
      for (const ExprId user : users_[id]) {
        if (--missing_[user] == 0) reach(user);
      }
    }
    return std::move(holds_);
  }

 private:
  void reach(ExprId id) {
    missing_[id] = 0;
    if (holds_[id]) return;
    holds_[id] = true;
    open_.push_back(id);
  }

  const ByteGrammar& grammar_;
  std::vector<bool> holds_;
  std::vector<std::size_t> missing_;        // number of parts that still lack the property
  std::vector<std::vector<ExprId>> users_;  // expressions that contain it as a part
  std::vector<ExprId> open_;
};

// Adds expressions that derive the texts of other expressions without the empty text.
class NonEmpty {
 public:
  explicit NonEmpty(ByteGrammar& grammar) : grammar_(grammar), nullable_(nullable_exprs(grammar)) {}

  bool is_nullable(ExprId id) {
    while (nullable_.size() <= id) {  // an added expression: its parts precede it
      const Expr& expr = grammar_.expr(static_cast<ExprId>(nullable_.size()));
      const auto holds = [&](ExprId part) { return nullable_[part]; };
      bool nullable = false;
      if (expr.kind == Kind::sequence) nullable = std::ranges::all_of(expr.parts, holds);
      if (expr.kind == Kind::choice) nullable = std::ranges::any_of(expr.parts, holds);
      if (expr.kind == Kind::repeat) nullable = expr.min == 0 || holds(expr.parts.front());
      if (expr.kind == Kind::counted) nullable = expr.steps->ends(0, 0);
      nullable_.push_back(nullable);  // added rules do not derive the empty text
    }
    return nullable_[id];
  }

  ExprId of(ExprId id, std::size_t depth = 0) {
    constexpr std::size_t kMaxDepth = 2000;
    require<RequestError>(depth < kMaxDepth,
                          "the constraint is nested too deeply (expected at most {} levels); simplify it",
                          kMaxDepth);
    if (!is_nullable(id)) return id;
    const Expr expr = grammar_.expr(id);
    if (expr.kind == Kind::sequence) return of_sequence(expr.parts, depth);
    if (expr.kind == Kind::choice) return of_choice(expr.parts, depth);
    if (expr.kind == Kind::repeat) return of_repeat(expr, depth);
    if (expr.kind == Kind::rule) return of_rule(expr.rule, depth);
    if (expr.kind == Kind::counted)
      return grammar_.counted({expr.steps->states(), std::max(expr.steps->min(), 1U), expr.steps->max()});
    return grammar_.never();
  }

 private:
  // The first part with a text that is not empty, and the parts after it.
  ExprId of_sequence(const std::vector<ExprId>& parts, std::size_t depth) {
    std::vector<ExprId> choices;
    ExprId rest = grammar_.empty();
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      choices.push_back(grammar_.sequence({of(*part, depth + 1), rest}));
      rest = grammar_.sequence({*part, rest});
    }
    return grammar_.choice(std::move(choices));
  }

  ExprId of_choice(const std::vector<ExprId>& parts, std::size_t depth) {
    std::vector<ExprId> choices;
    for (const ExprId part : parts) choices.push_back(of(part, depth + 1));
    return grammar_.choice(std::move(choices));
  }

  ExprId of_repeat(const Expr& expr, std::size_t depth) {
    if (expr.max == 0) return grammar_.never();
    const std::uint32_t max = expr.max == kUnbounded ? kUnbounded : expr.max - 1;
    const ExprId part = expr.parts.front();
    return grammar_.sequence(
        {of(part, depth + 1), grammar_.repeat(part, expr.min == 0 ? 0 : expr.min - 1, max)});
  }

  ExprId of_rule(RuleId rule, std::size_t depth) {
    const auto [found, is_new] = rules_.try_emplace(rule, 0);
    if (!is_new) return grammar_.rule(found->second);
    const RuleId added = found->second = grammar_.add_rule();
    grammar_.define(added, of(grammar_.definition(rule), depth + 1));
    return grammar_.rule(added);
  }

  ByteGrammar& grammar_;
  std::vector<bool> nullable_;
  std::map<RuleId, RuleId> rules_;
};

}  // namespace

std::vector<bool> nullable_exprs(const ByteGrammar& grammar) {
  return FixedPoint(grammar).solve([](const Expr& expr) {
    if (expr.kind == Kind::counted) return expr.steps->ends(0, 0);
    return expr.kind == Kind::text && expr.text.empty();
  });
}

std::vector<bool> productive_exprs(const ByteGrammar& grammar) {
  return FixedPoint(grammar).solve([](const Expr& expr) {
    return expr.kind == Kind::text || expr.kind == Kind::counted ||
           (expr.kind == Kind::bytes && expr.set.any());
  });
}

void normalize_repeats(ByteGrammar& grammar) {
  NonEmpty non_empty(grammar);
  for (ExprId id = 0; id < grammar.exprs(); ++id) {  // includes expressions added meanwhile
    const Expr expr = grammar.expr(id);
    const bool is_counted =
        expr.kind == Kind::repeat && (expr.min > 1 || (expr.max > 1 && expr.max < kUnbounded));
    if (is_counted && non_empty.is_nullable(expr.parts.front()))
      grammar.change_repeat(id, non_empty.of(expr.parts.front()), 0);
  }
}

}  // namespace tp::constraint
