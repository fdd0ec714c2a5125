#include "model/kernels/delta_rule.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/simd/elementwise.h"
#include "model/kernels/simd/simd.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

namespace tp::kernels {
namespace {

// [begin, end)
struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
};

constexpr std::size_t kVector = 16;

// Row `index` of the state's rows followed by the run's tokens. Null: zeros.
const float* row_of(const RecurrentRun& run, std::size_t state_rows, TensorView<const float> x,
                    std::size_t index) {
  if (index >= state_rows) return x.row(run.first_token + index - state_rows);
  return run.begins ? nullptr : run.state + index * x.columns();
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
              std::optional<Activation> activation, const RecurrentRun& run, Stretch rows,
              TensorView<float> out) {
  const std::size_t channels = x.columns();
  for (std::size_t token = rows.begin; token < rows.end; ++token) {
    float* const sum = out.row(run.first_token + token);
    if (bias.empty())
      std::fill_n(sum, channels, 0.0F);
    else
      std::copy_n(bias.data(), channels, sum);
    for (std::size_t tap = 0; tap < weight.rows(); ++tap) {
      const float* const from = row_of(run, weight.rows() - 1, x, token + tap);
      if (from == nullptr) continue;
      const float* const factor = weight.row(tap);
#pragma omp simd
      for (std::size_t i = 0; i < channels; ++i) sum[i] += factor[i] * from[i];
    }
    if (activation) activation_kernels(*activation).activate(sum, channels);
  }
}

// The part of a head's state that one task computes.
struct Strip {
  std::size_t head = 0;
  Stretch columns;         // columns of the head's values
  std::size_t offset = 0;  // place in the state
  std::size_t stride = 0;  // floats from one row of the state to the next
  std::size_t rows = 0;

  // The number of columns, rounded up to whole vectors.
  std::size_t stored_columns() const { return (columns.size() + kVector - 1) / kVector * kVector; }
  void clear(float* state) const {
    for (std::size_t row = 0; row < rows; ++row)
      std::fill_n(state + offset + row * stride, stored_columns(), 0.0F);
  }
  void copy(const float* from, float* to) const {
    for (std::size_t row = 0; row < rows; ++row)
      std::copy_n(from + offset + row * stride, stored_columns(), to + offset + row * stride);
  }
};

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

std::size_t padded(std::size_t columns) { return (columns + kVector - 1) / kVector * kVector; }

std::vector<Strip> strips_of(const DeltaRule& rule) {
  std::vector<Strip> strips;
  const std::size_t stride = padded(rule.value_dim);
  for (std::size_t head = 0; head < rule.key_of_head.size(); ++head) {
    for (std::size_t first = 0; first < rule.value_dim; first += kDeltaColumns) {
      strips.push_back({.head = head,
                        .columns = {first, std::min(rule.value_dim, first + kDeltaColumns)},
                        .offset = head * rule.key_dim * stride + first,
                        .stride = stride,
                        .rows = rule.key_dim});
    }
  }
  return strips;
}

void advance(const DeltaRule& rule, const RecurrentRun& run, Stretch tokens, const Strip& strip) {
  if (tokens.empty()) return;
  const std::size_t row = run.first_token + tokens.begin;
  const std::size_t key = rule.key_of_head[strip.head] * rule.key_dim;
  const std::size_t value = strip.head * rule.value_dim;
  const std::size_t decays = rule.decay.columns() / rule.key_of_head.size();  // per head
  simd().delta_rule({.query = rule.query.row(row) + key,
                     .key = rule.key.row(row) + key,
                     .key_stride = rule.key.stride(),
                     .value = rule.value.row(row) + value,
                     .value_stride = rule.value.stride(),
                     .decay = rule.decay.row(row) + strip.head * decays,
                     .decay_stride = rule.decay.stride(),
                     .strength = rule.strength.row(row) + strip.head,
                     .strength_stride = rule.strength.stride(),
                     .out = rule.out.row(row) + value,
                     .out_stride = rule.out.stride(),
                     .tokens = tokens.size(),
                     .key_dim = rule.key_dim,
                     .corrects = rule.corrects,
                     .decays_channels = decays != 1},
                    strip.columns.begin, strip.columns.size(), run.state + strip.offset, strip.stride);
}

void run_strip(const DeltaRule& rule, const RecurrentRun& run, const Strip& strip) {
  if (run.begins) strip.clear(run.state);
  std::size_t done = 0;
  for (const StateCopy& copy : run.copies) {
    advance(rule, run, {done, copy.tokens}, strip);
    strip.copy(run.state, copy.state);
    done = copy.tokens;
  }
  advance(rule, run, {done, run.tokens}, strip);
}

}  // namespace

void causal_convolution(TensorView<const float> x, TensorView<const float> weight,
                        std::span<const float> bias, std::optional<Activation> activation,
                        std::span<const RecurrentRun> runs, TensorView<float> out) {
  assert(x.columns() == weight.columns() && x.rows() == out.rows());
  assert(bias.empty() || bias.size() == x.columns());
  if (x.empty()) return;
  for (const RecurrentRun& run : runs) {
    for_thread_parts(run.tokens, run.tokens * weight.size(), [&](std::size_t begin, std::size_t end) {
      convolve(x, weight, bias, activation, run, {begin, end}, out);
    });
    for (const StateCopy& copy : run.copies)
      copy_last_rows(run, weight.rows() - 1, x, copy.tokens, copy.state);
    copy_last_rows(run, weight.rows() - 1, x, run.tokens, run.state);
  }
}

std::size_t delta_state_floats(std::size_t value_heads, std::size_t key_dim, std::size_t value_dim) {
  return value_heads * key_dim * padded(value_dim);
}

void delta_rule(const DeltaRule& rule, std::span<const RecurrentRun> runs) {
  assert(rule.query.stride() == rule.key.stride());
  assert(rule.decay.columns() == rule.key_of_head.size() ||
         rule.decay.columns() == rule.key_of_head.size() * rule.key_dim);
  if (rule.out.empty()) return;
  const std::vector<Strip> strips = strips_of(rule);
  const std::size_t work = rule.out.size() * rule.key_dim * 3;
  for_thread_parts(runs.size() * strips.size(), work, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      run_strip(rule, runs[i / strips.size()], strips[i % strips.size()]);
  });
}

void delta_gates(std::span<const float> rate, std::span<const float> bias, TensorView<float> decay,
                 TensorView<float> strength) {
  for_gates(decay, [&](std::size_t token, std::size_t i) {
    float& gate = decay(token, i);
    gate = std::exp(-rate[i] * softplus(gate + bias[i]));
  });
  for_gates(strength, [&](std::size_t token, std::size_t head) {
    float& beta = strength(token, head);
    beta = 1.0F / (1.0F + std::exp(-beta));
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
