#pragma once

#include <algorithm>

namespace tp {

// Decides whether drafts may be tried, from the costs and gains of earlier drafts. Every step adds a small
// share of its time. So drafts that never pay cost no more than this share, and are retried now and then.
class DraftBudget {
 public:
  // `step_seconds`: typical time of a step.
  explicit DraftBudget(double step_seconds) : step_seconds_(step_seconds), balance_(kFirst * step_seconds) {}

  bool allows() const { return balance_ > 0.0; }
  // Records a step: its time without drafts, and the time that drafts lost (negative: gained).
  void step(double seconds, double lost) {
    balance_ = std::clamp(balance_ + kShare * seconds - lost, kMin * step_seconds_, kMax * step_seconds_);
  }

 private:
  static constexpr double kShare = 0.02;
  // In steps: the initial balance, the largest balance to save for worse texts, and the largest debt to
  // repay, no matter how long the process was stopped.
  static constexpr double kFirst = 4.0;
  static constexpr double kMax = 8.0;
  static constexpr double kMin = -32.0;

  double step_seconds_;
  double balance_;
};

}  // namespace tp
