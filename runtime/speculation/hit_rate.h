#pragma once

namespace tp {

// How often something turned out right, where what was recent weighs more.
class HitRate {
 public:
  void add(bool hit) {
    constexpr double kKept = 0.95;
    count_ = kKept * count_ + 1.0;
    hits_ = kKept * hits_ + (hit ? 1.0 : 0.0);
  }
  // Between 0 and 1. As long as little was counted, what was expected weighs more.
  double value(double expected) const {
    constexpr double kWeightOfExpected = 4.0;
    return (hits_ + kWeightOfExpected * expected) / (count_ + kWeightOfExpected);
  }

 private:
  double count_ = 0.0;
  double hits_ = 0.0;
};

}  // namespace tp
