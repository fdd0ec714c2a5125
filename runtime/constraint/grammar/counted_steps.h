// A deterministic automaton whose steps are expressions of a grammar, and which counts them.
//
// So a language with a length is no larger than the language: only states that a text reaches exist with a
// count.
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

  // Texts take min to max steps; max may be kUnbounded. Throws RequestError if the table of possible lengths
  // becomes too large.
  CountedSteps(std::vector<State> states, std::uint32_t min, std::uint32_t max);

  const std::vector<State>& states() const { return states_; }
  std::uint32_t min() const { return min_; }
  std::uint32_t max() const { return max_; }
  std::uint32_t count_after(
      std::uint32_t count) const;  // one more step; counts that make no difference are one

  // Whether a text that is in this state after `count` steps can be completed.
  bool can_end(std::uint32_t state, std::uint32_t count) const;
  bool ends(std::uint32_t state, std::uint32_t count) const { return states_[state].ends && count >= min_; }
  // With counts from min() to less than this one, every state can end.
  std::uint32_t max_of_all() const;
  // Whether every state can take any number of further steps.
  bool is_endless() const;
  // The size of the table of possible lengths, which also says how long it took to make.
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
  std::vector<Lengths> lengths_;             // to an end, by state
  std::vector<std::vector<bool>> possible_;  // [states, max + 1] where some length in between is not
};

}  // namespace tp::constraint
