// Mamba-1's recurrence, in which each channel has a state of its own.
#pragma once

#include "model/kernels/recurrent_run.h"
#include "tp/tensor.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

// Channels whose numbers are side by side in a state and in the rates: [blocks, state_size, 16]. The last
// block may have fewer channels, and room for 16.
inline constexpr std::size_t kScanChannels = 16;

// Floats of a state.
constexpr std::size_t selective_state_floats(std::size_t channels, std::size_t state_size) {
  return padded(channels) * state_size;
}

struct SelectiveScan {
  TensorView<const float> x;      // [tokens, channels]
  TensorView<const float> step;   // [tokens, channels], before softplus
  TensorView<const float> b;      // [tokens, state_size]
  TensorView<const float> c;      // [tokens, state_size]
  std::span<const float> rate;    // [blocks, state_size, 16]
  std::span<const float> direct;  // [blocks, 16]
  TensorView<float> out;          // [tokens, channels]; may be x
};

// For each token of a run and each channel, with dt = softplus(step): state = exp(-rate dt) state + dt x b;
// out = state . c + direct x. Tokens are computed one by one, so results don't depend on the steps in which
// they come.
void selective_scan(const SelectiveScan& scan, std::span<const RecurrentRun> runs);

}  // namespace tp::kernels
