#include "model/kernels/recurrent_inputs.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/simd/elementwise.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace tp::kernels {
namespace {

// Row `index` of the state's rows followed by the run's tokens. Null: zeros.
const float* row_of(const RecurrentRun& run, std::size_t state_rows, TensorView<const float> x,
                    std::size_t index) {
  if (index >= state_rows) return x.row(run.first_token + index - state_rows);
  return run.begins() ? nullptr : run.state + index * x.columns();
}

// Copies the state after the run's first `tokens` tokens to `state`, which may be the old state's memory.
void copy_last_rows(const RecurrentRun& run, std::size_t state_rows, TensorView<const float> x,
                    std::size_t tokens, float* state) {
  for (std::size_t i = 0; i < state_rows; ++i) {  // in ascending order: rows move forward
    const float* const from = row_of(run, state_rows, x, i + tokens);
    float* const to = state + i * x.columns();
    if (from == nullptr)
      std::fill_n(to, x.columns(), 0.0F);
    else if (from != to)
      std::copy_n(from, x.columns(), to);
  }
}

// Rows [begin, end) of the run.
void convolve(TensorView<const float> x, TensorView<const float> weight, std::span<const float> bias,
              std::optional<Activation> activation, const RecurrentRun& run, std::size_t dilation,
              std::size_t begin, std::size_t end, TensorView<float> out) {
  const std::size_t channels = x.columns();
  for (std::size_t token = begin; token < end; ++token) {
    float* const sum = out.row(run.first_token + token);
    if (bias.empty())
      std::fill_n(sum, channels, 0.0F);
    else
      std::copy_n(bias.data(), channels, sum);
    for (std::size_t tap = 0; tap < weight.rows(); ++tap) {
      const float* const from = row_of(run, (weight.rows() - 1) * dilation, x, token + tap * dilation);
      if (from == nullptr) continue;
      const float* const factor = weight.row(tap);
#pragma omp simd
      for (std::size_t i = 0; i < channels; ++i) sum[i] += factor[i] * from[i];
    }
    if (activation) activation_kernels(*activation).activate(sum, channels);
  }
}

// Calls body(token, column) for all gates.
template <class Body>
void for_gates(TensorView<float> gates, const Body& body) {
  if (gates.empty()) return;
  constexpr std::size_t kWork = 64;  // approximate operations of the functions per gate
  for_thread_parts(gates.size(), gates.size() * kWork, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(i / gates.columns(), i % gates.columns());
  });
}

float softplus(float x) { return x > 20.0F ? x : std::log1p(std::exp(x)); }

}  // namespace

void causal_convolution(TensorView<const float> x, TensorView<const float> weight,
                        std::span<const float> bias, std::optional<Activation> activation,
                        std::span<const RecurrentRun> runs, TensorView<float> out, std::size_t dilation) {
  assert(x.columns() == weight.columns() && x.rows() == out.rows());
  assert(bias.empty() || bias.size() == x.columns());
  if (x.empty()) return;
  for (const RecurrentRun& run : runs) {
    for_thread_parts(run.tokens, run.tokens * weight.size(), [&](std::size_t begin, std::size_t end) {
      convolve(x, weight, bias, activation, run, dilation, begin, end, out);
    });
  }
  keep_last_rows(runs, (weight.rows() - 1) * dilation, x);
}

const float* row_before(const RecurrentRun& run, std::size_t state_rows, TensorView<const float> x,
                        std::size_t token, std::size_t back) {
  assert(back <= token + state_rows);
  return row_of(run, state_rows, x, token + state_rows - back);
}

void keep_last_rows(std::span<const RecurrentRun> runs, std::size_t state_rows, TensorView<const float> x) {
  for (const RecurrentRun& run : runs) {
    for (const StateCopy& copy : run.copies) copy_last_rows(run, state_rows, x, copy.tokens, copy.state);
    copy_last_rows(run, state_rows, x, run.tokens, run.state);
  }
}

void delta_gates(const DeltaGates& gates, std::span<const float> rate, std::span<const float> bias,
                 TensorView<float> decay, TensorView<float> strength) {
  for_gates(decay, [&](std::size_t token, std::size_t i) {
    float& gate = decay(token, i);
    if (gates.decay_floor == 0.0F)
      gate = std::exp(-rate[i] * softplus(gate + bias[i]));
    else
      gate = std::exp(gates.decay_floor / (1.0F + std::exp(-rate[i] * (gate + bias[i]))));
  });
  for_gates(strength, [&](std::size_t token, std::size_t head) {
    float& beta = strength(token, head);
    beta = gates.strength_scale / (1.0F + std::exp(-beta));
  });
}

void mamba_gates(std::span<const float> rate, std::span<const float> bias, TensorView<const float> x,
                 TensorView<float> decay, TensorView<float> strength) {
  for_gates(decay, [&](std::size_t token, std::size_t head) {
    const float step = softplus(x(token, head) + bias[head]);
    strength(token, head) = step;
    decay(token, head) = std::exp(-rate[head] * step);
  });
}

}  // namespace tp::kernels
