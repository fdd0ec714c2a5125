#include "runtime/constraint/shortest_texts.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace tp::constraint {

ShortestTexts::ShortestTexts(StateMachine& machine)
    : machine_(machine),
      places_(machine.automaton().positions.size(), kUnknown),
      rules_(machine.automaton().rules.size(), kUnknown) {
  measure_rules();
}

// Dijkstra's algorithm, backwards from the ends. A call is as long as its rule plus the text after it.
void ShortestTexts::measure_rules() {
  const Automaton& automaton = machine_.automaton();
  struct Edge {
    Place from;
    std::uint64_t bytes;
  };
  struct CallEdge {
    Place from;
    Place target;
    RuleId rule;
  };
  std::vector<std::vector<Edge>> edges(places_.size());
  std::vector<std::vector<CallEdge>> calls_to(places_.size());
  std::vector<std::vector<CallEdge>> calls_of(rules_.size());
  using Entry = std::pair<std::uint64_t, Place>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  for (Place place = 0; place < places_.size(); ++place) {
    const Automaton::Position& position = automaton.positions[place];
    for (const auto& edge : position.bytes) edges[edge.target].push_back({place, 1});
    for (const Place target : position.empties) edges[target].push_back({place, 0});
    for (const auto& step : position.steps) edges[step.target].push_back({place, 0});
    if (position.after_step) edges[*position.after_step].push_back({place, 0});
    for (const auto& call : position.calls) {
      calls_to[call.target].push_back({place, call.target, call.rule});
      calls_of[call.rule].push_back({place, call.target, call.rule});
    }
    if (position.ends || position.repeats) open.emplace(0, place);
  }
  for (RuleId rule = 0; rule < rules_.size(); ++rule) {
    if (automaton.rules[rule].nullable) rules_[rule] = 0;
  }
  const auto offer_call = [&](const CallEdge& call) {
    if (rules_[call.rule] < kUnknown && places_[call.target] < kUnknown)
      open.emplace(rules_[call.rule] + places_[call.target], call.from);
  };
  while (!open.empty()) {
    const auto [bytes, place] = open.top();
    open.pop();
    if (places_[place] < kUnknown) continue;
    places_[place] = bytes;
    for (const Edge& edge : edges[place]) open.emplace(bytes + edge.bytes, edge.from);
    for (const CallEdge& call : calls_to[place]) offer_call(call);
    const RuleId id = automaton.positions[place].rule;
    const Automaton::Rule& rule = automaton.rules[id];
    if (rules_[id] < kUnknown || place != (rule.is_repetition ? rule.body : rule.start)) continue;
    rules_[id] = rule.is_repetition ? bytes * rule.min : std::max<std::uint64_t>(bytes, rule.min);
    for (const CallEdge& call : calls_of[id]) offer_call(call);
  }
}

std::uint64_t ShortestTexts::in_rule(const Item& item) const {
  const Automaton& automaton = machine_.automaton();
  const Automaton::Rule& rule = automaton.rules[automaton.positions[item.place].rule];
  const std::uint64_t missing = rule.min > item.count ? rule.min - item.count : 0;
  if (!rule.is_repetition) return std::max(places_[item.place], missing);
  if (item.place == rule.start) return missing * places_[rule.body];
  return places_[item.place] + (missing > 0 ? missing - 1 : 0) * places_[rule.body];
}

// A list of open states replaces recursion, because a text can begin more rules than the stack has room for.
std::uint64_t ShortestTexts::after(StateId state) {
  struct Open {
    StateId state;
    bool is_ready;  // the states after it are measured, or open
  };
  std::vector<Open> open = {{state, false}};
  while (!open.empty()) {
    const Open next = open.back();
    if (states_.size() < machine_.states()) states_.resize(machine_.states(), kNew);
    if (next.is_ready) {
      states_[next.state] = measured(next.state);
      open.pop_back();
    } else if (states_[next.state] != kNew) {
      open.pop_back();
    } else {
      states_[next.state] = kUnknown;  // ends a cycle while it is measured
      open.back().is_ready = true;
      const std::vector<Item> roots = machine_.roots(next.state);
      for (const Item& item : roots) {
        if (item.origin != kOutside)
          open.push_back({machine_.after_rule(item.origin, item.called_as), false});
      }
    }
  }
  return states_[state];
}

std::uint64_t ShortestTexts::measured(StateId state) {
  std::uint64_t shortest = kUnknown;
  const std::vector<Item> roots = machine_.roots(state);
  for (const Item& item : roots) {
    const std::uint64_t behind =
        item.origin == kOutside ? 0 : states_[machine_.after_rule(item.origin, item.called_as)];
    shortest = std::min(shortest, in_rule(item) + behind);
  }
  return std::min(shortest, kUnknown);
}

}  // namespace tp::constraint
