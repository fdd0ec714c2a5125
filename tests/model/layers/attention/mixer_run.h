// A recurrent layer on a sequence whose tokens come in several steps, and parts of its naive reference.
#pragma once

#include "model/layers/linear/batch.h"
#include "model/layers/linear/step_context.h"
#include "model/memory/state_cache.h"
#include "model/memory/workspace.h"
#include "parallel/exchange/collectives.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/reference/delta_rule.h"
#include "tests/reference/matrix.h"
#include "tests/reference/random.h"
#include "tp/communicator.h"
#include "tp/tensor.h"

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tp::test {

// Adds a tensor of random numbers in [-scale, scale), and returns its values for the reference.
inline std::vector<float> add_random(MemoryWeights& source, reference::Random& random,
                                     const std::string& name, MatrixShape shape, float scale) {
  std::vector<float> values = random.numbers(shape.size());
  for (float& value : values) value *= scale;
  source.add(name, shape, values);
  return values;
}

// The next tokens of the only sequence, whose state is in slot 0.
inline Batch batch_of_one(std::size_t tokens, std::size_t position) {
  Batch batch;
  batch.spans = {{{.first_token = 0, .tokens = tokens, .start_position = position, .block_table = {}}}};
  batch.states = {{.slot = 0}};
  return batch;
}

// The layer's output of a sequence whose tokens come in steps of these sizes, in the shape of `x`. Collective
// over `comm`.
template <class Layer>
std::vector<float> run_layer(Communicator& comm, const Layer& layer, std::size_t state_floats,
                             TensorView<const float> x, std::span<const std::size_t> steps) {
  const std::vector<std::size_t> floats = {state_floats};
  const StateCache states(floats, 1);
  std::vector<float> all(x.size());
  std::size_t first = 0;
  for (const std::size_t tokens : steps) {
    Workspace workspace(1 << 20);
    const Batch batch = batch_of_one(tokens, first);
    const StepContext step{.batch = batch, .workspace = workspace, .states = states.layer(0), .comm = &comm};
    const TensorView<float> out(all.data() + first * x.columns(), tokens, x.columns());
    all_reduce(comm, layer(x.rows_from(first, tokens), step), out);
    first += tokens;
  }
  return all;
}

// y = x . weight^T, where x are the first columns of `all`.
inline reference::Matrix product(const reference::Matrix& all, const std::vector<float>& weight,
                                 std::size_t columns) {
  reference::Matrix y(all.rows, weight.size() / columns);
  for (std::size_t row = 0; row < y.rows; ++row) {
    for (std::size_t o = 0; o < y.columns; ++o) {
      for (std::size_t i = 0; i < columns; ++i) y(row, o) += all(row, i) * weight[o * columns + i];
    }
  }
  return y;
}

// silu of the convolution of the columns of `y` that begin at `first`. taps: [channels, taps of one]
inline reference::Matrix convolved_channels(const reference::Matrix& y, std::size_t first,
                                            const std::vector<float>& taps, const std::vector<float>& bias) {
  const std::size_t taps_of_one = taps.size() / bias.size();
  reference::Matrix mixed(y.rows, bias.size());
  for (std::size_t channel = 0; channel < mixed.columns; ++channel) {
    std::vector<double> values;
    for (std::size_t row = 0; row < y.rows; ++row) values.push_back(y(row, first + channel));
    const std::span own(taps.data() + channel * taps_of_one, taps_of_one);
    for (std::size_t row = 0; row < y.rows; ++row)
      mixed(row, channel) = reference::silu(reference::convolved(values, own, row) + bias[channel]);
  }
  return mixed;
}

// Divides the columns that begin at `first` by their root mean square, and multiplies them by their gains.
inline void norm_columns(reference::Matrix& y, std::size_t first, std::span<const float> gains, float eps) {
  for (std::size_t row = 0; row < y.rows; ++row) {
    double squares = 0.0;
    for (std::size_t i = 0; i < gains.size(); ++i) squares += y(row, first + i) * y(row, first + i);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(gains.size()) + eps);
    for (std::size_t i = 0; i < gains.size(); ++i) y(row, first + i) *= scale * gains[i];
  }
}

}  // namespace tp::test
