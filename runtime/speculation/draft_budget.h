#pragma once

#include <algorithm>

namespace tp {

// Whether drafts may be tried, by what earlier ones have cost and gained. Every step adds a small share of
// its time, so that drafts which never pay cost no more than that share, and are tried again now and then.
class DraftBudget {
 public:
  // `step_seconds`: what a step takes.
  explicit DraftBudget(double step_seconds) : step_seconds_(step_seconds), balance_(kFirst * step_seconds) {}

  bool allows() const { return balance_ > 0.0; }
  // A step took so long, apart from its drafts, with which it has lost so much (less than nothing: gained).
  void step(double seconds, double lost) {
    balance_ = std::clamp(balance_ + kShare * seconds - lost, kLeast * step_seconds_, kMost * step_seconds_);
  }

 private:
  static constexpr double kShare = 0.02;
  // In steps: what is there at first, how much is kept for worse texts, and for how much must be saved again
  // at most, however long a stopped process took.
  static constexpr double kFirst = 4.0;
  static constexpr double kMost = 8.0;
  static constexpr double kLeast = -32.0;

  double step_seconds_;
  double balance_;
};

}  // namespace tp
