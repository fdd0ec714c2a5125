#include "runtime/speculation/match_rates.h"

namespace tp {
namespace {

// Rates before anything was counted. Matches of a single token are mostly accidental.
constexpr std::array<double, 6> kFirstRates = {0.1, 0.2, 0.35, 0.55, 0.75, 0.9};

}  // namespace

// Kinds are the lengths 1, 2, 3, 4 to 7, 8 to 15, and more.
std::size_t MatchRates::kind_of(std::size_t length) {
  if (length <= 3) return length == 0 ? 0 : length - 1;
  if (length < 8) return 3;
  return length < 16 ? 4 : 5;
}

void MatchRates::add(std::size_t length, bool came_again) { kinds_[kind_of(length)].add(came_again); }

double MatchRates::rate(std::size_t length, const MatchRates* others) const {
  return kinds_[kind_of(length)].value(others != nullptr ? others->rate(length)
                                                         : kFirstRates[kind_of(length)]);
}

}  // namespace tp
