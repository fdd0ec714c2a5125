// The deterministic automaton of a grammar, built on demand.
//
// A state is a set of items, as in Earley's algorithm: a position in a rule, and the place where the rule was
// called. Earley's items identify the place by its index in the text. Here, the state at that place
// identifies it. So states do not depend on their position in a text, and results for a state serve every
// text that leads to it. Left recursion and ambiguity need no special care.
#pragma once

#include "runtime/constraint/grammar/automaton.h"
#include "runtime/constraint/grammar/progress.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tp::constraint {

inline constexpr StateId kOutside = 0xFFFFFFFE;  // origin of rules that no state has called

struct Item {
  Place place = 0;
  std::uint32_t count = 0;  // repetitions or steps so far, in rules that count them; else 0
  StateId origin = kOutside;
  // The rule that ends in `origin` when the item's rule ends: the item's rule, or a rule that ends with it.
  RuleId called_as = 0;

  friend auto operator<=>(const Item&, const Item&) = default;
};

class StateMachine {
 public:
  // `automaton` must outlive this object.
  explicit StateMachine(const Automaton& automaton) : automaton_(&automaton) {}

  // The state of these items, in any order; kDead if there are none. Members that return states throw
  // RequestError if there are too many states, or too many items in a state.
  StateId state_of(std::vector<Item> items);
  StateId start() { return state_of({{automaton_->rules[automaton_->root].start}}); }

  // The state after one more byte. `state` must not be kDead.
  StateId next(StateId state, std::uint8_t byte) {
    const std::uint8_t byte_class = automaton_->class_of[byte];
    const StateId known = next_[state * automaton_->classes + byte_class];
    return known != kUnknown ? known : compute_next(state, byte_class);
  }

  // Whether a rule that was called from outside ends here. For states that start() leads to: whether the text
  // may end.
  bool ends(StateId state) const { return states_[state].ends; }
  // Whether no further byte is possible.
  bool is_final(StateId state) const { return states_[state].active.empty(); }

  // The next byte of every text; nothing if the text may end, or if there is a choice.
  std::optional<std::uint8_t> forced_byte(StateId state) const;

  // Work is counted in units of a few nanoseconds, because grammars of requests are not trusted. Callers may
  // limit the work: members that return states throw RequestError when the limit is reached, and leave the
  // machine usable.
  void limit_work(std::uint64_t units) { work_left_ = units; }
  std::uint64_t work_left() const { return work_left_; }
  void charge(std::uint64_t units) const {
    if (units > work_left_) fail_for_work();
    work_left_ -= units;
  }

  // The items that begin the state: after a byte, and after rules that end there.
  const std::vector<Item>& roots(StateId state) const { return states_[state].roots; }
  // The state in which a rule that was called in `origin` has just ended.
  StateId after_rule(StateId origin, RuleId rule);

  const Automaton& automaton() const { return *automaton_; }
  std::size_t states() const { return states_.size(); }
  // Approximate memory in use.
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr StateId kUnknown = 0xFFFFFFFD;

  struct Waiter {
    RuleId rule;
    Item item;  // item to continue with after the rule
    friend auto operator<=>(const Waiter&, const Waiter&) = default;
  };
  struct State {
    std::vector<Item> roots;
    std::vector<Item> active;     // at positions with edges for bytes
    std::vector<Waiter> waiters;  // sorted
    bool ends = false;
  };
  struct ItemsHash {
    std::size_t operator()(const std::vector<Item>& items) const;
  };
  class Closure;

  [[noreturn]] static void fail_for_work();
  StateId compute_next(StateId state, std::uint8_t byte_class);
  StateId add_state(const std::vector<Item>& items);

  const Automaton* automaton_;
  std::vector<State> states_;
  std::vector<StateId> next_;  // [states, classes]
  std::unordered_map<std::vector<Item>, StateId, ItemsHash> ids_;
  std::unordered_map<std::uint64_t, StateId> after_rules_;
  std::size_t bytes_ = 0;
  mutable std::uint64_t work_left_ = std::numeric_limits<std::uint64_t>::max();
};

}  // namespace tp::constraint
