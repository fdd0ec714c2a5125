// Reference implementations of a mixture of experts: every token by itself, whole lists sorted.
#pragma once

#include "model/config/spec.h"
#include "tests/reference/matrix.h"

#include <cstddef>
#include <vector>

namespace tp::reference {

struct ExpertChoice {
  std::size_t expert = 0;
  double weight = 0.0;
};

// Returns the experts of one token, best first. bias: as logits, or empty.
std::vector<ExpertChoice> choose_experts(const RouterSpec& spec, const std::vector<double>& logits,
                                         const std::vector<double>& bias);

// gate, up: [intermediate_size, hidden_size], down: [hidden_size, intermediate_size]
struct ExpertWeights {
  Matrix gate;
  Matrix up;
  Matrix down;
  // Biases of the three matrices, or empty.
  std::vector<double> gate_bias{};
  std::vector<double> up_bias{};
  std::vector<double> down_bias{};
};

// down(activation(gate(x)) * up(x))
Matrix expert(const ExpertWeights& weights, const Matrix& x,
              kernels::Activation activation = kernels::Activation::silu);

}  // namespace tp::reference
