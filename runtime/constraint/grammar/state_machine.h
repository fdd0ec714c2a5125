// The deterministic automaton of a grammar, made as far as it is needed.
//
// A state is a set of items, as in Earley's algorithm: a position in a rule, and where the rule was called.
// Earley's items name that place by its index in the text; here it is the state that was current at that
// place. So states do not depend on where they occur in a text, and what was computed for one serves every
// text that leads to it. Left recursion and ambiguity cost nothing special.
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

inline constexpr StateId kOutside = 0xFFFFFFFE;  // the origin of what no state has called

struct Item {
  Place place = 0;
  std::uint32_t count = 0;  // repetitions so far, in rules that are repetitions; else 0
  StateId origin = kOutside;
  // The rule that ends in `origin` when this one does: its own, or one that ends with it.
  RuleId called_as = 0;

  friend auto operator<=>(const Item&, const Item&) = default;
};

class StateMachine {
 public:
  // `automaton` must outlive it.
  explicit StateMachine(const Automaton& automaton) : automaton_(&automaton) {}

  // The state of these items, in any order; kDead if there are none. All members that return states throw
  // RequestError if there are too many, or too many items in one.
  StateId state_of(std::vector<Item> items);
  StateId start() { return state_of({{automaton_->rules[automaton_->root].start}}); }

  // The state after one more byte. `state` must not be kDead.
  StateId next(StateId state, std::uint8_t byte) {
    const std::uint8_t byte_class = automaton_->class_of[byte];
    const StateId known = next_[state * automaton_->classes + byte_class];
    return known != kUnknown ? known : compute_next(state, byte_class);
  }

  // Whether a rule that was called from outside ends here: for a state that start() leads to, whether the
  // text may end.
  bool ends(StateId state) const { return states_[state].ends; }
  // Whether no further byte is possible.
  bool is_final(StateId state) const { return states_[state].active.empty(); }

  // The byte that every text goes on with; nothing if it may end, or go on otherwise.
  std::optional<std::uint8_t> forced_byte(StateId state) const;

  // Work is counted in units of some nanoseconds, because grammars come from strangers. Whoever uses the
  // machine may limit it: members that return states throw RequestError when the limit is reached, and are
  // otherwise as before.
  void limit_work(std::uint64_t units) { work_left_ = units; }
  std::uint64_t work_left() const { return work_left_; }
  void charge(std::uint64_t units) const {
    if (units > work_left_) fail_for_work();
    work_left_ -= units;
  }

  // The items that the state stems from: after a byte, and after rules that end there.
  const std::vector<Item>& roots(StateId state) const { return states_[state].roots; }
  // The state in which a rule that was called in `origin` has just ended.
  StateId after_rule(StateId origin, RuleId rule);

  const Automaton& automaton() const { return *automaton_; }
  std::size_t states() const { return states_.size(); }
  // Approximately.
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr StateId kUnknown = 0xFFFFFFFD;

  struct Waiter {
    RuleId rule;
    Item item;  // where it goes on when the rule has ended
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
