// A gated delta rule and a causal convolution by their formulas, for one head or channel at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace tp::reference {

// One head. For each token: S *= decay; S += k (strength (v - S^T k))^T; the result is S^T q. A decay is a
// number, or one for each row of S. Without corrections, adds the value itself.
class DeltaHead {
 public:
  DeltaHead(std::size_t key_dim, std::size_t value_dim)
      : value_dim_(value_dim), state_(key_dim, std::vector<double>(value_dim, 0.0)) {}

  template <class Vector>
  std::vector<double> next(const Vector& query, const Vector& key, const Vector& value, const Vector& decay,
                           double strength, bool corrects = true) {
    std::vector<double> known(value_dim_, 0.0);
    for (std::size_t i = 0; i < state_.size(); ++i) {
      for (std::size_t j = 0; j < value_dim_; ++j) {
        state_[i][j] *= decay[decay.size() == 1 ? 0 : i];
        known[j] += state_[i][j] * key[i];
      }
    }
    std::vector<double> result(value_dim_, 0.0);
    for (std::size_t i = 0; i < state_.size(); ++i) {
      for (std::size_t j = 0; j < value_dim_; ++j) {
        state_[i][j] += key[i] * strength * (value[j] - (corrects ? known[j] : 0.0));
        result[j] += state_[i][j] * query[i];
      }
    }
    return result;
  }

 private:
  std::size_t value_dim_;
  std::vector<std::vector<double>> state_;  // [key_dim][value_dim]
};

// The sum over taps of taps[j] * x[last - taps.size() + 1 + j], where x before 0 is 0.
template <class Vector, class Taps>
double convolved(const Vector& x, const Taps& taps, std::size_t last) {
  double sum = 0.0;
  for (std::size_t j = 0; j < taps.size(); ++j) {
    if (last + j + 1 >= taps.size()) sum += static_cast<double>(taps[j]) * x[last + j + 1 - taps.size()];
  }
  return sum;
}

inline double silu(double x) { return x / (1.0 + std::exp(-x)); }

}  // namespace tp::reference
