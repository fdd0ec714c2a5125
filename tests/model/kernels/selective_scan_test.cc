// Mamba-1's recurrence against its formulas in double precision.
#include "model/kernels/selective_scan.h"

#include "tests/reference/mamba.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;

// One sequence's channels, and the rates of their states' elements.
struct ScanProblem {
  std::size_t tokens = 0;
  std::size_t channels = 0;
  std::size_t state_size = 0;
  std::vector<float> x, step, b, c, rate, direct;  // rate: [channels, state_size]
  std::vector<float> out;
  std::vector<float> state;

  ScanProblem(std::size_t tokens_, std::size_t channels_, std::size_t state_size_)
      : tokens(tokens_), channels(channels_), state_size(state_size_) {
    Random random(channels);
    x = random.numbers(tokens * channels);
    step = random.numbers(tokens * channels);
    b = random.numbers(tokens * state_size);
    c = random.numbers(tokens * state_size);
    rate = random.numbers(channels * state_size);
    direct = random.numbers(channels);
    for (float& value : step) value *= 4.0F;
    for (float& value : rate) value = std::exp(value);
    out.resize(x.size());
    state.assign(kernels::selective_state_floats(channels, state_size), 77.0F);
  }

  // Returns the channels [first, first + count) as a separate problem.
  ScanProblem part(std::size_t first, std::size_t count) const {
    ScanProblem own(tokens, count, state_size);
    own.b = b;
    own.c = c;
    for (std::size_t i = 0; i < count; ++i) {
      own.direct[i] = direct[first + i];
      std::copy_n(&rate[(first + i) * state_size], state_size, &own.rate[i * state_size]);
      for (std::size_t token = 0; token < tokens; ++token) {
        own.x[token * count + i] = x[token * channels + first + i];
        own.step[token * count + i] = step[token * channels + first + i];
      }
    }
    return own;
  }

  // Runs the tokens [first, first + count) and copies the state on the way.
  void run(std::size_t first, std::size_t count, std::span<const kernels::StateCopy> copies = {}) {
    constexpr std::size_t kBlock = kernels::kScanChannels;
    std::vector<float> rates(state.size());
    for (std::size_t i = 0; i < channels; ++i) {
      for (std::size_t n = 0; n < state_size; ++n)
        rates[(i / kBlock * state_size + n) * kBlock + i % kBlock] = rate[i * state_size + n];
    }
    std::vector<float> factors = direct;
    factors.resize(kernels::padded(channels));
    const std::vector<kernels::RecurrentRun> runs = {
        {.first_token = first, .tokens = count, .position = first, .state = state.data(), .copies = copies}};
    kernels::selective_scan({.x = {x.data(), tokens, channels},
                             .step = {step.data(), tokens, channels},
                             .b = {b.data(), tokens, state_size},
                             .c = {c.data(), tokens, state_size},
                             .rate = rates,
                             .direct = factors,
                             .out = {out.data(), tokens, channels}},
                            runs);
  }

  // The largest difference from the formulas.
  double difference() const {
    double largest = 0.0;
    for (std::size_t i = 0; i < channels; ++i) {
      std::vector<double> elements(state_size, 0.0);
      for (std::size_t token = 0; token < tokens; ++token) {
        const double dt = reference::softplus(step[token * channels + i]);
        const double value = x[token * channels + i];
        double expected = direct[i] * value;
        for (std::size_t n = 0; n < state_size; ++n) {
          elements[n] =
              std::exp(-dt * rate[i * state_size + n]) * elements[n] + dt * value * b[token * state_size + n];
          expected += elements[n] * c[token * state_size + n];
        }
        const double apart = std::abs(out[token * channels + i] - expected);
        largest = apart <= largest ? largest : apart;
      }
    }
    return largest;
  }
};

TEST(SelectiveScan, EqualsItsFormulas) {
  for (const std::size_t channels : {1, 15, 16, 17, 40, 128}) {
    for (const std::size_t state_size : {1, 5, 16}) {
      ScanProblem problem(70, channels, state_size);
      problem.run(0, problem.tokens);
      EXPECT_LT(problem.difference(), 2e-5) << channels << " channels, states of " << state_size;
    }
  }
}

TEST(SelectiveScan, HasStepsFromNearlyNothingToLarge) {
  ScanProblem problem(6, 16, 1);
  const std::array<float, 6> steps = {-200.0F, -90.0F, -20.0F, 0.0F, 30.0F, 500.0F};
  for (std::size_t i = 0; i < problem.step.size(); ++i) problem.step[i] = steps[i / 16];
  problem.run(0, problem.tokens);
  EXPECT_LT(problem.difference(), 1e-3);
}

TEST(SelectiveScan, HasTheSameBitsInAnySteps) {
  ScanProblem whole(23, 40, 16);
  ScanProblem cut = whole;
  whole.run(0, 23);
  std::vector<float> copied(whole.state.size());
  const std::array<kernels::StateCopy, 1> copies = {{{4, copied.data()}}};
  cut.run(0, 7, copies);
  cut.run(7, 1);
  cut.run(8, 15);
  EXPECT_EQ(cut.out, whole.out);
  EXPECT_EQ(cut.state, whole.state);
  cut.state = copied;
  cut.run(4, 19);
  EXPECT_EQ(cut.out, whole.out);
  EXPECT_EQ(cut.state, whole.state);
}

TEST(SelectiveScan, HasTheSameBitsForAnyDivisionOfChannels) {
  ScanProblem whole(9, 40, 16);
  whole.run(0, whole.tokens);
  for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 3}, {3, 21}, {24, 16}}) {
    ScanProblem part = whole.part(first, count);
    part.run(0, part.tokens);
    for (std::size_t token = 0; token < whole.tokens; ++token) {
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(part.out[token * count + i], whole.out[token * whole.channels + first + i]) << first + i;
    }
  }
}

}  // namespace
}  // namespace tp
