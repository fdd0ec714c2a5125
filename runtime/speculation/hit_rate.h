#pragma once

namespace tp {

// The rate of hits. Recent results weigh more.
class HitRate {
 public:
  void add(bool hit) {
    constexpr double kKept = 0.95;
    count_ = kKept * count_ + 1.0;
    hits_ = kKept * hits_ + (hit ? 1.0 : 0.0);
  }
  // Between 0 and 1. `expected` dominates while few results were counted.
  double value(double expected) const {
    constexpr double kWeightOfExpected = 4.0;
    return (hits_ + kWeightOfExpected * expected) / (count_ + kWeightOfExpected);
  }

 private:
  double count_ = 0.0;
  double hits_ = 0.0;
};

}  // namespace tp
