#pragma once

#include <cstdint>

namespace tp::kernels {

// silu: x / (1 + exp(-x)); gelu: x * Phi(x), with the normal distribution's Phi, or with the usual
// approximation of it by a tanh; relu: max(x, 0).
enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu };

}  // namespace tp::kernels
