// Inner loops that treat each row or each element separately; see simd.h for the rules.
#pragma once

#include "model/kernels/simd/vector/activation.h"

#include <cstddef>

namespace tp::kernels {

// The kernels of one Activation.
struct ActivationKernels {
  // x = activation(x)
  void (*activate)(float* x, std::size_t size);
  // out = activation(gate) * up; some activations clamp up
  void (*activate_and_multiply)(const float* gate, const float* up, std::size_t size, float* out);
};

struct ElementwiseKernels {
  // out = x / rms(x) * gain
  void (*rms_norm)(const float* x, const float* gain, std::size_t size, float eps, float* out);
  // out = (x - mean(x)) / sqrt(variance(x) + eps) * gain + bias
  void (*layer_norm)(const float* x, const float* gain, const float* bias, std::size_t size, float eps,
                     float* out);
  // y += x
  void (*add)(const float* x, std::size_t size, float* y);
  // x = cap * tanh(x / cap)
  void (*softcap)(float cap, float* x, std::size_t size);
  ActivationKernels silu;
  ActivationKernels gelu;
  ActivationKernels gelu_tanh;
  ActivationKernels relu;
  ActivationKernels relu_squared;
  ActivationKernels clamped_swiglu;
  ActivationKernels sigmoid;
  // x = xielu(x)
  void (*xielu)(const Xielu& function, float* x, std::size_t size);
  // x = min(max(x, -limit), limit)
  void (*clip)(float limit, float* x, std::size_t size);
};

// The kernels of the active instruction set.
const ElementwiseKernels& elementwise_kernels();
// The kernels of an activation.
const ActivationKernels& activation_kernels(Activation activation);

}  // namespace tp::kernels
