// Mamba-2's recurrence by its formulas, for one head at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace tp::reference {

inline double softplus(double x) { return std::log1p(std::exp(-std::abs(x))) + std::fmax(x, 0.0); }

// One head. For each token: H = exp(a dt) H + dt x B^T; the result is H C.
class MambaHead {
 public:
  MambaHead(std::size_t head_dim, std::size_t state_size)
      : state_(head_dim, std::vector<double>(state_size, 0.0)) {}

  // x: [head_dim], b, c: [state_size]; a: the logarithm of the decay, for each unit of dt.
  template <class Vector>
  std::vector<double> next(const Vector& x, const Vector& b, const Vector& c, double dt, double a) {
    std::vector<double> result(state_.size(), 0.0);
    for (std::size_t i = 0; i < state_.size(); ++i) {
      for (std::size_t j = 0; j < state_[i].size(); ++j) {
        state_[i][j] = std::exp(a * dt) * state_[i][j] + dt * x[i] * b[j];
        result[i] += state_[i][j] * c[j];
      }
    }
    return result;
  }

 private:
  std::vector<std::vector<double>> state_;  // [head_dim][state_size]
};

}  // namespace tp::reference
