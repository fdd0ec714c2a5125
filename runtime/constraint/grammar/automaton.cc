#include "runtime/constraint/grammar/automaton.h"

#include "runtime/constraint/grammar/derivations.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>

namespace tp::constraint {
namespace {

using Kind = Expr::Kind;

constexpr std::size_t kMaxPositions = 200000;

class AutomatonBuilder {
 public:
  explicit AutomatonBuilder(const ByteGrammar& grammar)
      : grammar_(grammar), productive_(productive_exprs(grammar)), nullable_(nullable_exprs(grammar)) {}

  Automaton build() {
    require<RequestError>(
        productive_[grammar_.definition(grammar_.root)],
        "the constraint allows no text at all (expected at least one); it contradicts itself");
    rule_of_.assign(grammar_.rules(), kNone);
    single_.fill(kNone);
    out_.root = rule_at(grammar_.root);
    while (!open_.empty()) {
      const auto [rule, expr] = open_.back();
      open_.pop_back();
      if (out_.rules[rule].steps)
        build_steps(rule);
      else
        build_rule(rule, expr);
    }
    join_edges();
    make_classes();
    out_.controls = grammar_.controls();
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  struct Connection {
    ExprId expr;
    Place from;
    Place to;
  };

  // The automaton's rule for a rule of the grammar. It is built later.
  RuleId rule_at(RuleId rule) {
    if (rule_of_[rule] != kNone) return rule_of_[rule];
    const ExprId definition = grammar_.definition(rule);
    const RuleId added = add_rule(nullable_[definition]);
    open_.emplace_back(added, definition);
    return rule_of_[rule] = added;
  }

  RuleId repetition_at(const Expr& expr) {
    const auto [found, is_new] = repetitions_.try_emplace({expr.parts.front(), expr.min, expr.max}, 0);
    if (!is_new) return found->second;
    const RuleId added = found->second = add_rule(expr.min == 0);
    Automaton::Rule& rule = out_.rules[added];
    rule.is_repetition = true;
    rule.min = expr.min;
    rule.max = expr.max;
    open_.emplace_back(added, expr.parts.front());
    return added;
  }

  RuleId counting_at(ExprId id) {
    const auto [found, is_new] = countings_.try_emplace(id, 0);
    if (!is_new) return found->second;
    const RuleId added = found->second = add_rule(nullable_[id]);
    Automaton::Rule& rule = out_.rules[added];
    rule.steps = grammar_.expr(id).steps;
    rule.min = rule.steps->min();
    open_.emplace_back(added, id);
    return added;
  }

  RuleId add_rule(bool nullable) {
    const auto id = static_cast<RuleId>(out_.rules.size());
    const Place start = add_position(id);
    out_.rules.push_back({.start = start, .nullable = nullable});
    return id;
  }

  Place add_position(RuleId rule) {
    require<RequestError>(out_.positions.size() < kMaxPositions,
                          "the constraint is too large: expected an automaton of at most {} positions, found "
                          "more; simplify it",
                          kMaxPositions);
    out_.positions.push_back({.rule = rule});
    return static_cast<Place>(out_.positions.size() - 1);
  }

  void build_rule(RuleId rule, ExprId expr) {
    const bool is_repetition = out_.rules[rule].is_repetition;
    const Place start = out_.rules[rule].start;
    const Place begin = is_repetition ? add_position(rule) : start;
    const Place end = add_position(rule);
    if (is_repetition) {
      out_.rules[rule].body = begin;
      out_.positions[end].repeats = true;
    } else {
      out_.positions[end].ends = true;
    }
    connect(expr, begin, end);
  }

  // Adds a position for each state, a position where the steps to it end, and a position where each of its
  // steps begins. Steps with equal expressions and targets share a beginning.
  void build_steps(RuleId rule) {
    const std::vector<CountedSteps::State>& states = out_.rules[rule].steps->states();
    std::vector<Place> places = {out_.rules[rule].start};
    while (places.size() < states.size()) places.push_back(add_position(rule));
    std::map<std::pair<ExprId, std::uint32_t>, Place> begins;
    std::map<std::uint32_t, Place> ends;  // end positions, by target
    for (std::size_t state = 0; state < states.size(); ++state) {
      out_.positions[places[state]].ends = states[state].ends;
      for (const CountedSteps::Step& step : states[state].steps) {
        const auto [found, is_new] = begins.try_emplace({step.expr, step.target}, 0);
        if (is_new) {
          const auto [end, is_first] = ends.try_emplace(step.target, 0);
          if (is_first) end->second = add_position(rule);
          out_.positions[end->second].after_step = places[step.target];
          found->second = add_position(rule);
          connect(step.expr, found->second, end->second);
        }
        out_.positions[places[state]].steps.push_back({step.target, found->second});
      }
    }
  }

  // Adds positions and edges that derive `expr` between two positions of a rule. The parts wait in a list,
  // because grammars of requests can be nested more deeply than the stack allows.
  void connect(ExprId id, Place from, Place to) {
    connect_later(id, from, to);
    while (!connections_.empty()) {
      const Connection next = connections_.back();
      connections_.pop_back();
      connect_now(next.expr, next.from, next.to);
    }
  }

  void connect_later(ExprId id, Place from, Place to) { connections_.push_back({id, from, to}); }

  void connect_now(ExprId id, Place from, Place to) {
    if (!productive_[id]) return;
    const Expr& expr = grammar_.expr(id);
    switch (expr.kind) {
      case Kind::never:
        return;
      case Kind::bytes:
        return add_bytes(expr.set, from, to);
      case Kind::text:
        return connect_text(expr.text, from, to);
      case Kind::sequence:
        return connect_sequence(expr.parts, from, to);
      case Kind::choice:
        for (const ExprId part : expr.parts) connect_later(part, from, to);
        return;
      case Kind::repeat:
        return connect_repeat(expr, from, to);
      case Kind::rule:
        return connect_call(rule_at(expr.rule), from, to);
      case Kind::counted:
        return connect_call(counting_at(id), from, to);
    }
  }

  void add_bytes(const ByteSet& set, Place from, Place to) {
    out_.positions[from].bytes.push_back({index_of(set), to});
  }

  std::uint32_t index_of(const ByteSet& set) {
    const auto [found, is_new] =
        set_index_.try_emplace(set.to_string(), static_cast<std::uint32_t>(byte_sets_.size()));
    if (is_new) byte_sets_.push_back(set);
    return found->second;
  }

  // The index of the set with this single byte.
  std::uint32_t index_of(std::uint8_t byte) {
    std::uint32_t& index = single_[byte];
    if (index == kNone) index = index_of(ByteSet().set(byte));
    return index;
  }

  void connect_text(const std::string& text, Place from, Place to) {
    if (text.empty()) return out_.positions[from].empties.push_back(to);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const Place next = i + 1 == text.size() ? to : add_position(out_.positions[from].rule);
      out_.positions[from].bytes.push_back({index_of(static_cast<std::uint8_t>(text[i])), next});
      from = next;
    }
  }

  void connect_sequence(const std::vector<ExprId>& parts, Place from, Place to) {
    if (parts.empty()) return out_.positions[from].empties.push_back(to);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Place next = i + 1 == parts.size() ? to : add_position(out_.positions[from].rule);
      connect_later(parts[i], from, next);
      from = next;
    }
  }

  void connect_repeat(const Expr& expr, Place from, Place to) {
    const ExprId part = expr.parts.front();
    if (expr.max == 0 || !productive_[part]) return out_.positions[from].empties.push_back(to);
    if (expr.min == 0 && expr.max == 1) {
      connect_later(part, from, to);
      return out_.positions[from].empties.push_back(to);
    }
    if (expr.min > 1 || expr.max != kUnbounded) return connect_call(repetition_at(expr), from, to);
    const RuleId rule = out_.positions[from].rule;
    const Place head = add_position(rule);
    const Place tail = add_position(rule);
    connect_later(part, head, tail);
    out_.positions[from].empties.push_back(head);
    out_.positions[tail].empties.push_back(head);
    out_.positions[tail].empties.push_back(to);
    if (expr.min == 0) out_.positions[from].empties.push_back(to);
  }

  void connect_call(RuleId rule, Place from, Place to) { out_.positions[from].calls.push_back({rule, to}); }

  // Leaves one edge per target, and no two equal steps, because the state machine visits all of them for
  // every item.
  void join_edges() {
    const auto same_call = [](const Automaton::Call& a, const Automaton::Call& b) {
      return a.rule == b.rule && a.target == b.target;
    };
    for (Automaton::Position& position : out_.positions) {
      std::vector<Place>& empties = position.empties;
      std::ranges::sort(empties);
      empties.erase(std::unique(empties.begin(), empties.end()), empties.end());
      std::vector<Automaton::Call>& calls = position.calls;
      std::ranges::sort(calls, {},
                        [](const Automaton::Call& call) { return std::pair(call.rule, call.target); });
      calls.erase(std::unique(calls.begin(), calls.end(), same_call), calls.end());
      join_bytes(position.bytes);
    }
  }

  void join_bytes(std::vector<Automaton::ByteEdge>& edges) {
    std::ranges::sort(edges, {}, &Automaton::ByteEdge::target);
    std::size_t kept = 0;
    for (std::size_t begin = 0; begin < edges.size();) {
      std::size_t end = begin + 1;
      while (end < edges.size() && edges[end].target == edges[begin].target) ++end;
      edges[kept++] = end == begin + 1 ? edges[begin] : joined(std::span(edges).subspan(begin, end - begin));
      begin = end;
    }
    edges.resize(kept);
  }

  Automaton::ByteEdge joined(std::span<const Automaton::ByteEdge> edges) {
    ByteSet all;
    for (const Automaton::ByteEdge& edge : edges) all |= byte_sets_[edge.set];
    return {index_of(all), edges.front().target};
  }

  void make_classes() {
    out_.class_of.fill(0);
    out_.classes = 1;
    for (const ByteSet& set : byte_sets_) {
      out_.alphabet |= set;
      if (out_.classes < 256) divide_classes(set);
    }
    std::array<int, 256> sizes{};
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint8_t its = out_.class_of[byte];
      out_.only_byte[its] = ++sizes[its] == 1 ? std::optional(static_cast<std::uint8_t>(byte)) : std::nullopt;
    }
    for (const ByteSet& set : byte_sets_) {
      ClassSet& classes = out_.sets.emplace_back();
      for (std::size_t byte = 0; byte < 256; ++byte) {
        if (set[byte]) classes.set(out_.class_of[byte]);
      }
    }
  }

  // Divides every class into its bytes inside and outside the set, unless one part is empty.
  void divide_classes(const ByteSet& set) {
    std::array<std::array<int, 2>, 256> parts{};
    int next = 0;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      int& part = parts[out_.class_of[byte]][set[byte] ? 1 : 0];
      if (part == 0) part = ++next;
      out_.class_of[byte] = static_cast<std::uint8_t>(part - 1);
    }
    out_.classes = static_cast<std::size_t>(next);
  }

  const ByteGrammar& grammar_;
  std::vector<bool> productive_;
  std::vector<bool> nullable_;
  Automaton out_;
  std::vector<RuleId> rule_of_;
  std::map<std::tuple<ExprId, std::uint32_t, std::uint32_t>, RuleId> repetitions_;
  std::map<ExprId, RuleId> countings_;
  std::vector<std::pair<RuleId, ExprId>> open_;  // rules to build
  std::vector<Connection> connections_;          // parts of the current rule to connect
  std::array<std::uint32_t, 256> single_{};      // indices into byte_sets_
  std::vector<ByteSet> byte_sets_;
  std::map<std::string, std::uint32_t> set_index_;
};

}  // namespace

Automaton build_automaton(ByteGrammar grammar) {
  normalize_repeats(grammar);
  return AutomatonBuilder(grammar).build();
}

std::size_t bytes_of(const Automaton& automaton) {
  std::size_t bytes =
      automaton.sets.size() * sizeof(ClassSet) + automaton.rules.size() * sizeof(Automaton::Rule);
  for (const Automaton::Position& position : automaton.positions) {
    bytes += sizeof(position) + position.bytes.size() * sizeof(Automaton::ByteEdge) +
             position.empties.size() * sizeof(Place) + position.calls.size() * sizeof(Automaton::Call) +
             position.steps.size() * sizeof(Automaton::Step);
  }
  return bytes;
}

}  // namespace tp::constraint
