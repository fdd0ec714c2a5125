#pragma once

#include <cstdint>

namespace tp::kernels {

// silu: x / (1 + exp(-x)); gelu: x * Phi(x), with the normal distribution's Phi; gelu_tanh: the usual
// approximation by tanh; relu: max(x, 0); relu_squared: max(x, 0)^2; clamped_swiglu: y / (1 + exp(-1.702 y))
// with y = min(x, 7), and the gated value is clamped to -7 to 7, plus 1 (GPT-OSS); sigmoid: 1 / (1 +
// exp(-x)).
enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu, relu_squared, clamped_swiglu, sigmoid };

// x > 0: positive x^2 + linear x, else negative (expm1(min(x, eps)) - x) + linear x. Source: Huang and
// Schlag, Deriving Activation Functions Using Integration, 2024.
struct Xielu {
  float positive = 0.0F;
  float negative = 0.0F;
  float linear = 0.0F;
  float eps = 0.0F;
};

}  // namespace tp::kernels
