// The tokens of one sequence that a recurrent layer computes together.
#pragma once

#include <cstddef>
#include <span>

namespace tp::kernels {

// Rounded up to whole vectors, which are cache lines of floats.
constexpr std::size_t padded(std::size_t count) { return (count + 15) / 16 * 16; }

// A copy of the recurrent state after the first `tokens` tokens of a run.
struct StateCopy {
  std::size_t tokens = 0;
  float* state = nullptr;
};

// Consecutive tokens of one sequence in a batch, and the memory of its state.
struct RecurrentRun {
  std::size_t first_token = 0;  // row in the batch
  std::size_t tokens = 0;
  std::size_t position = 0;  // at 0, the state is zero, whatever is in memory
  float* state = nullptr;
  std::span<const StateCopy> copies{};  // in ascending order

  bool begins() const { return position == 0; }
};

}  // namespace tp::kernels
