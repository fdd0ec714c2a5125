// A deterministic automaton that counts its steps, which are expressions of a grammar.
//
// So limits of length do not enlarge the automaton: a state exists with a count only if a text reaches both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tp::constraint {

class CountedSteps {
 public:
  struct Step {
    std::uint32_t expr;  // an ExprId
    std::uint32_t target;
  };
  struct State {
    std::vector<Step> steps{};
    bool ends = false;
  };

  // Texts have `min` to `max` steps; kUnbounded: no limit. Throws RequestError if the table of possible
  // lengths becomes too large.
  CountedSteps(std::vector<State> states, std::uint32_t min, std::uint32_t max);

  const std::vector<State>& states() const { return states_; }
  std::uint32_t min() const { return min_; }
  std::uint32_t max() const { return max_; }
  std::uint32_t count_after(
      std::uint32_t count) const;  // count after one more step; equivalent counts are merged

  // Whether a text that is in this state after `count` steps can be completed.
  bool can_end(std::uint32_t state, std::uint32_t count) const;
  bool ends(std::uint32_t state, std::uint32_t count) const { return states_[state].ends && count >= min_; }
  // From min() up to this count, exclusive, texts can be completed in every state.
  std::uint32_t max_of_all() const;
  // Whether every state allows any number of further steps.
  bool is_endless() const;
  // Size of the table of possible lengths, which also measures the time to compute it.
  std::size_t table_bits() const { return possible_.size() * (std::size_t{max_} + 1); }
  bool empty() const { return states_.empty() || is_dead(0) || !can_end(0, 0); }

 private:
  using Lengths = std::pair<std::uint32_t, std::uint32_t>;  // shortest, longest (or kUnbounded)

  bool is_dead(std::uint32_t state) const;
  void find_shortest();
  void remove_dead_steps();
  void find_longest();
  bool has_gap(std::uint32_t state) const;
  void find_all_lengths();

  std::vector<State> states_;
  std::uint32_t min_;
  std::uint32_t max_;
  std::vector<Lengths> lengths_;             // [states], to an end
  std::vector<std::vector<bool>> possible_;  // [states, max + 1]; empty if lengths have no gaps
};

}  // namespace tp::constraint
