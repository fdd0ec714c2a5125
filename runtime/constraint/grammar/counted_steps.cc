#include "runtime/constraint/grammar/counted_steps.h"

#include "runtime/constraint/grammar/byte_grammar.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxTable = std::size_t{1} << 24;  // bits

std::uint32_t one_more(std::uint32_t length) { return length == kUnbounded ? kUnbounded : length + 1; }

}  // namespace

CountedSteps::CountedSteps(std::vector<State> states, std::uint32_t min, std::uint32_t max)
    : states_(std::move(states)), min_(min), max_(max), lengths_(states_.size(), {kUnbounded, kUnbounded}) {
  if (states_.empty()) return;
  find_shortest();
  remove_dead_steps();
  find_longest();
  if (lengths_.front().second <= max_) max_ = kUnbounded;
  if (max_ == kUnbounded) return;
  bool has_gaps = false;
  for (std::uint32_t state = 0; state < states_.size(); ++state)
    has_gaps |= !is_dead(state) && has_gap(state);
  if (has_gaps) find_all_lengths();
}

std::uint32_t CountedSteps::count_after(std::uint32_t count) const {
  return std::min(count + 1, max_ == kUnbounded ? min_ : max_ + 1);
}

bool CountedSteps::can_end(std::uint32_t state, std::uint32_t count) const {
  if (max_ != kUnbounded && count > max_) return false;
  const std::uint32_t least = min_ > count ? min_ - count : 0;
  const auto& [shortest, longest] = lengths_[state];
  if (longest < least) return false;
  if (max_ == kUnbounded) return true;
  const std::uint32_t most = max_ - count;
  if (shortest > most) return false;
  if (possible_.empty()) return true;
  const std::vector<bool>& lengths = possible_[state];
  return std::find(lengths.begin() + least, lengths.begin() + most + 1, true) != lengths.begin() + most + 1;
}

std::uint32_t CountedSteps::max_of_all() const {
  if (max_ == kUnbounded) return kUnbounded;
  std::uint32_t most = 0;
  for (std::uint32_t state = 0; state < states_.size(); ++state) {
    if (!is_dead(state)) most = std::max(most, lengths_[state].first);
  }
  return max_ >= most ? max_ - most + 1 : 0;
}

bool CountedSteps::is_endless() const {
  return possible_.empty() &&
         std::ranges::all_of(lengths_, [](const Lengths& one) { return one.second == kUnbounded; });
}

// Whether this state cannot reach an end.
bool CountedSteps::is_dead(std::uint32_t state) const { return lengths_[state].first == kUnbounded; }

void CountedSteps::remove_dead_steps() {
  for (State& state : states_)
    std::erase_if(state.steps, [&](const Step& step) { return is_dead(step.target); });
}

// Breadth-first search, backwards from the ends.
void CountedSteps::find_shortest() {
  std::vector<std::vector<std::uint32_t>> sources(states_.size());
  std::vector<std::uint32_t> open;
  for (std::uint32_t state = 0; state < states_.size(); ++state) {
    for (const Step& step : states_[state].steps) sources[step.target].push_back(state);
    if (!states_[state].ends) continue;
    lengths_[state].first = 0;
    open.push_back(state);
  }
  for (std::size_t i = 0; i < open.size(); ++i) {
    for (const std::uint32_t source : sources[open[i]]) {
      if (lengths_[source].first != kUnbounded) continue;
      lengths_[source].first = lengths_[open[i]].first + 1;
      open.push_back(source);
    }
  }
}

// A state is done when all of its successors are done. States that are never done lead to a cycle.
void CountedSteps::find_longest() {
  std::vector<std::vector<std::uint32_t>> sources(states_.size());
  std::vector<std::size_t> missing(states_.size());
  std::vector<std::uint32_t> done;
  for (std::uint32_t state = 0; state < states_.size(); ++state) {
    missing[state] = states_[state].steps.size();
    for (const Step& step : states_[state].steps) sources[step.target].push_back(state);
    if (missing[state] == 0) done.push_back(state);
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    std::uint32_t longest = 0;
    for (const Step& step : states_[done[i]].steps)
      longest = std::max(longest, one_more(lengths_[step.target].second));
    lengths_[done[i]].second = longest;
    for (const std::uint32_t source : sources[done[i]]) {
      if (--missing[source] == 0) done.push_back(source);
    }
  }
}

// Whether some length between the shortest and the longest is impossible, if no other state has a gap.
bool CountedSteps::has_gap(std::uint32_t state) const {
  std::vector<Lengths> parts;
  if (states_[state].ends) parts.emplace_back(0, 0);
  for (const Step& step : states_[state].steps)
    parts.emplace_back(lengths_[step.target].first + 1, one_more(lengths_[step.target].second));
  std::ranges::sort(parts);
  std::uint32_t reached = parts.front().second;
  for (const auto& [shortest, longest] : parts) {
    if (reached != kUnbounded && shortest > reached + 1) return true;
    reached = std::max(reached, longest);
  }
  return false;
}

void CountedSteps::find_all_lengths() {
  require<RequestError>(
      states_.size() * (std::size_t{max_} + 1) <= kMaxTable,
      "the constraint is too large: expected a pattern and a length with at most {} "
      "combinations, found {} states and a length of {}; simplify the pattern, or lower the "
      "length",
      kMaxTable, states_.size(), max_);
  possible_.assign(states_.size(), std::vector<bool>(std::size_t{max_} + 1));
  for (std::size_t length = 0; length <= max_; ++length) {
    for (std::size_t state = 0; state < states_.size(); ++state) {
      const auto leads_on = [&](const Step& step) { return possible_[step.target][length - 1]; };
      possible_[state][length] =
          length == 0 ? states_[state].ends : std::ranges::any_of(states_[state].steps, leads_on);
    }
  }
}

}  // namespace tp::constraint
