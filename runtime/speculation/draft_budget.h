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
  // A step took so long, apart from its drafts.
  void step(double seconds) { add(kShare * seconds); }
  void spend(double seconds) { add(-seconds); }
  // Accepted tokens made unnecessary what would have taken so long.
  void earn(double seconds) { add(seconds); }

 private:
  static constexpr double kShare = 0.02;
  // In steps: what is there at first, how much is kept for worse texts, and for how much must be saved again
  // at most, however long a stopped process took.
  static constexpr double kFirst = 4.0;
  static constexpr double kMost = 8.0;
  static constexpr double kLeast = -32.0;

  void add(double seconds) {
    balance_ = std::clamp(balance_ + seconds, kLeast * step_seconds_, kMost * step_seconds_);
  }

  double step_seconds_;
  double balance_;
};

}  // namespace tp
