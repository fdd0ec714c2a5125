#pragma once

namespace tp::kernels {

// A gated activation: beta * tanh(gate / beta) / (1 + exp(-gate)) * linear_beta * tanh(up / linear_beta).
// Source: Moonshot AI, Kimi-K3, 2026.
struct Situ {
  float beta = 1.0F;
  float linear_beta = 1.0F;

  bool operator==(const Situ&) const = default;
};

}  // namespace tp::kernels
