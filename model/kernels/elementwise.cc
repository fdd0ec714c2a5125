#include "model/kernels/elementwise.h"

#include "model/kernels/simd/elementwise.h"
#include "model/kernels/simd/matmul/leaf_sum.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace tp::kernels {
namespace {

template <class T, class Body>
void for_rows(TensorView<T> x, const Body& body) {
  if (x.empty()) return;
#pragma omp parallel for schedule(static) if (x.rows() > 1 && x.size() >= kMinParallelWork)
  for (std::size_t row = 0; row < x.rows(); ++row) body(row);
}

}  // namespace

const ActivationKernels& activation_kernels(Activation activation) {
  const ElementwiseKernels& all = elementwise_kernels();
  switch (activation) {
    case Activation::silu:
      return all.silu;
    case Activation::gelu:
      return all.gelu;
    case Activation::gelu_tanh:
      return all.gelu_tanh;
    case Activation::clamped_swiglu:
      return all.clamped_swiglu;
    case Activation::sigmoid:
      return all.sigmoid;
    case Activation::relu:
      return all.relu;
    case Activation::relu_squared:
      break;
  }
  return all.relu_squared;
}

void rms_norm(TensorView<const float> x, std::span<const float> gain, float eps, TensorView<float> out) {
  const std::size_t size = gain.size();
  assert(x.columns() % size == 0 && out.columns() == x.columns() && x.rows() == out.rows());
  for_rows(x, [&](std::size_t row) {
    for (std::size_t i = 0; i < x.columns(); i += size)
      elementwise_kernels().rms_norm(x.row(row) + i, gain.data(), size, eps, out.row(row) + i);
  });
}

void layer_norm(TensorView<const float> x, std::span<const float> gain, std::span<const float> bias,
                float eps, TensorView<float> out) {
  const std::size_t size = gain.size();
  assert(x.columns() % size == 0 && out.columns() == x.columns() && x.rows() == out.rows());
  assert(bias.size() == size);
  for_rows(x, [&](std::size_t row) {
    for (std::size_t i = 0; i < x.columns(); i += size)
      elementwise_kernels().layer_norm(x.row(row) + i, gain.data(), bias.data(), size, eps, out.row(row) + i);
  });
}

void activate(Activation activation, TensorView<float> x) {
  const ActivationKernels& kernels = activation_kernels(activation);
  for_rows(x, [&](std::size_t row) { kernels.activate(x.row(row), x.columns()); });
}

void multiply_activated(Activation activation, TensorView<const float> gate, TensorView<float> x) {
  assert(gate.rows() == x.rows() && gate.columns() == x.columns());
  const ActivationKernels& kernels = activation_kernels(activation);
  for_rows(x, [&](std::size_t row) {
    kernels.activate_and_multiply(gate.row(row), x.row(row), x.columns(), x.row(row));
  });
}

void activate_limit_and_multiply(Activation activation, float limit, bool limits_gate,
                                 TensorView<float> gate_up, TensorView<float> out) {
  assert(gate_up.columns() == 2 * out.columns() && gate_up.rows() == out.rows());
  const ActivationKernels& kernels = activation_kernels(activation);
  for_rows(out, [&](std::size_t row) {
    float* const gate = gate_up.row(row);
    const float* const up = gate + out.columns();
    float* const to = out.row(row);
    const auto limit_gates = [&] {
      for (std::size_t i = 0; i < out.columns(); ++i) gate[i] = std::min(gate[i], limit);
    };
    if (limits_gate) limit_gates();
    kernels.activate(gate, out.columns());
    if (!limits_gate) limit_gates();
    for (std::size_t i = 0; i < out.columns(); ++i) to[i] = gate[i] * std::clamp(up[i], -limit, limit);
  });
}

void situ_and_multiply(const Situ& function, TensorView<float> gate_up, TensorView<float> out) {
  assert(gate_up.columns() == 2 * out.columns() && gate_up.rows() == out.rows());
  if (out.empty()) return;
  const TensorView<float> gate = gate_up.columns_from(0, out.columns());
  const TensorView<float> up = gate_up.columns_from(out.columns(), out.columns());
  for_rows(out, [&](std::size_t row) { std::copy_n(gate.row(row), out.columns(), out.row(row)); });
  softcap(function.beta, out);
  softcap(function.linear_beta, up);
  multiply_activated(Activation::sigmoid, gate, out);
  multiply(up, out);
}

void multiply_gates(bool softplus, TensorView<const float> gate, std::size_t per_gate, TensorView<float> x) {
  assert(gate.rows() == x.rows() && gate.columns() * per_gate == x.columns());
  for_rows(x, [&](std::size_t row) {
    float* element = x.row(row);
    for (std::size_t i = 0; i < gate.columns(); ++i) {
      const float value = gate(row, i);
      // softplus without overflow: max(x, 0) + log(1 + exp(-|x|)).
      const float factor = softplus ? std::max(value, 0.0F) + std::log1p(std::exp(-std::abs(value)))
                                    : 1.0F / (1.0F + std::exp(-value));
      for (std::size_t j = 0; j < per_gate; ++j) *element++ *= factor;
    }
  });
}

void xielu(const Xielu& function, TensorView<float> x) {
  for_rows(x, [&](std::size_t row) { elementwise_kernels().xielu(function, x.row(row), x.columns()); });
}

void clip(float limit, TensorView<float> x) {
  for_rows(x, [&](std::size_t row) { elementwise_kernels().clip(limit, x.row(row), x.columns()); });
}

void activate_and_multiply(Activation activation, TensorView<const float> gate_up, TensorView<float> out) {
  assert(gate_up.columns() == 2 * out.columns() && gate_up.rows() == out.rows());
  const ActivationKernels& kernels = activation_kernels(activation);
  for_rows(out, [&](std::size_t row) {
    const float* gate = gate_up.row(row);
    kernels.activate_and_multiply(gate, gate + out.columns(), out.columns(), out.row(row));
  });
}

void softcap(float cap, TensorView<float> x) {
  for_rows(x, [&](std::size_t row) { elementwise_kernels().softcap(cap, x.row(row), x.columns()); });
}

void scale(float factor, TensorView<float> x) {
  for_rows(x, [&](std::size_t row) {
    float* const elements = x.row(row);
    for (std::size_t i = 0; i < x.columns(); ++i) elements[i] *= factor;
  });
}

void multiply(TensorView<const float> factors, TensorView<float> x) {
  assert(factors.rows() == x.rows() && factors.columns() == x.columns());
  for_rows(x, [&](std::size_t row) {
    const float* const factor = factors.row(row);
    float* const elements = x.row(row);
    for (std::size_t i = 0; i < x.columns(); ++i) elements[i] *= factor[i];
  });
}

void add_products(std::span<const float> factors, TensorView<const float> x, TensorView<float> y) {
  assert(x.rows() == y.rows() && x.columns() == y.columns() && factors.size() == y.columns());
  for_rows(y, [&](std::size_t row) {
    const float* const from = x.row(row);
    float* const to = y.row(row);
    for (std::size_t i = 0; i < factors.size(); ++i) to[i] += factors[i] * from[i];
  });
}

void clear(TensorView<float> x) {
  for_rows(x, [&](std::size_t row) { std::fill_n(x.row(row), x.columns(), 0.0F); });
}

void clear(TensorView<double> x) {
  for_rows(x, [&](std::size_t row) { std::fill_n(x.row(row), x.columns(), 0.0); });
}

void add(TensorView<const float> x, TensorView<float> y) {
  assert(x.columns() == y.columns() && x.rows() == y.rows());
  for_rows(x, [&](std::size_t row) { elementwise_kernels().add(x.row(row), x.columns(), y.row(row)); });
}

void add_bias(std::span<const float> bias, TensorView<float> y) {
  assert(bias.size() == y.columns());
  for_rows(y, [&](std::size_t row) { elementwise_kernels().add(bias.data(), bias.size(), y.row(row)); });
}

void add_bias(std::span<const float> bias, TensorView<double> y) {
  assert(bias.size() == y.columns());
  for_rows(y, [&](std::size_t row) { add_leaf(bias.data(), bias.size(), false, y.row(row)); });
}

void add_bias(std::span<const float> bias, std::span<const float> factors, TensorView<float> y) {
  assert(bias.size() == y.columns() && factors.size() == y.rows());
  for_rows(y, [&](std::size_t row) {
    for (std::size_t i = 0; i < bias.size(); ++i) y(row, i) += factors[row] * bias[i];
  });
}

void add_bias(std::span<const float> bias, std::span<const float> factors, TensorView<double> y) {
  assert(bias.size() == y.columns() && factors.size() == y.rows());
  for_rows(y, [&](std::size_t row) {
    for (std::size_t i = 0; i < bias.size(); ++i) {
      const float addend = factors[row] * bias[i];
      add_leaf(&addend, 1, false, &y(row, i));
    }
  });
}

}  // namespace tp::kernels
