// Grammars over bytes. All kinds of constraints are compiled to them.
#pragma once

#include "runtime/constraint/grammar/counted_steps.h"
#include "runtime/constraint/grammar/language_budget.h"
#include "tp/token_id.h"

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tp::constraint {

using ByteSet = std::bitset<256>;
using ExprId = std::uint32_t;
using RuleId = std::uint32_t;

inline constexpr std::uint32_t kUnbounded = 0xFFFFFFFF;

// A control token is not text. A grammar represents it by bytes that begin and end with this byte, which no
// text contains.
inline constexpr std::uint8_t kControlByte = 0xFF;
std::string control_text(TokenId id);

// The size of a grammar is limited, because requests with schemas and grammars are not trusted.
inline constexpr std::size_t kMaxExprs = 60000;
inline constexpr std::size_t kMaxTextBytes = 1 << 20;
inline constexpr std::uint32_t kMaxRepetitions = 1000000;

// An expression, which derives texts. Expressions are shared freely: only normalize_repeats changes them.
struct Expr {
  enum class Kind : std::uint8_t {
    never,     // no text, not even the empty text
    bytes,     // one byte of `set`
    text,      // these bytes
    sequence,  // all parts, one after the other; without parts, the empty text
    choice,    // one of the parts
    repeat,    // parts[0], `min` to `max` times
    rule,      // the texts of a rule
    counted,   // the texts of the expressions in `steps`, one after the other
  };

  Kind kind = Kind::never;
  ByteSet set{};
  std::string text{};
  std::vector<ExprId> parts{};
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  RuleId rule = 0;
  std::shared_ptr<const CountedSteps> steps{};
};

class ByteGrammar {
 public:
  // These members throw RequestError if the grammar becomes too large.
  ExprId never();
  ExprId empty();
  ExprId bytes(const ByteSet& set);
  ExprId text(std::string_view text);
  ExprId control(TokenId id);
  ExprId sequence(std::vector<ExprId> parts);
  ExprId choice(std::vector<ExprId> parts);
  // max: kUnbounded for no limit.
  ExprId repeat(ExprId part, std::uint32_t min, std::uint32_t max);
  ExprId optional(ExprId part) { return repeat(part, 0, 1); }
  ExprId rule(RuleId rule);
  // Every expression of a step must derive some text, but not the empty text.
  ExprId counted(CountedSteps steps);

  // Adds a rule that derives nothing until it is defined. Rules may refer to each other, and to themselves.
  RuleId add_rule();
  void define(RuleId rule, ExprId expr) { rules_.at(rule) = expr; }
  // Makes an expression a rule, so that a compiled grammar contains it only once.
  ExprId as_rule(ExprId expr);

  // Limits the work on this grammar, and on grammars that share the budget.
  LanguageBudget& budget() const { return *budget_; }
  // An empty grammar that shares the budget.
  ByteGrammar scratch() const {
    ByteGrammar other;
    other.budget_ = budget_;
    return other;
  }

  // Changes the part and the minimum of a repetition.
  void change_repeat(ExprId id, ExprId part, std::uint32_t min) {
    exprs_.at(id).parts.front() = part;
    exprs_.at(id).min = min;
  }

  const Expr& expr(ExprId id) const { return exprs_.at(id); }
  std::size_t exprs() const { return exprs_.size(); }
  ExprId definition(RuleId rule) const { return rules_.at(rule); }
  std::size_t rules() const { return rules_.size(); }
  // The control tokens in the grammar.
  const std::vector<TokenId>& controls() const { return controls_; }

  // The rule that derives whole texts.
  RuleId root = 0;

 private:
  ExprId add(Expr expr);

  std::vector<Expr> exprs_;
  std::vector<ExprId> rules_;
  std::vector<TokenId> controls_;
  std::shared_ptr<LanguageBudget> budget_ = std::make_shared<LanguageBudget>();
  std::size_t text_bytes_ = 0;
};

}  // namespace tp::constraint
