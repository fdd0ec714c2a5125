// The Mamba-1 mixer against its formulas in double precision, on any number of ranks.
#include "model/layers/attention/mamba1.h"

#include "model/memory/state_cache.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/model/layers/attention/mixer_run.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/mpi_test.h"
#include "tests/reference/delta_rule.h"
#include "tests/reference/kernels.h"
#include "tests/reference/mamba.h"
#include "tests/reference/random.h"
#include "tp/mpi.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kHidden = 24;
constexpr std::size_t kState = 5;
constexpr std::size_t kTaps = 4;
constexpr std::size_t kRank = 3;
constexpr float kEps = 1e-3F;

Mamba1Spec mixer_of(std::size_t channels, bool norms) {
  Mamba1Spec spec{.channels = channels,
                  .state_size = kState,
                  .conv_kernel = kTaps,
                  .dt_rank = kRank,
                  .norm = std::nullopt};
  if (norms) spec.norm = NormSpec{.eps = kEps};
  return spec;
}

BlockNames mixer_names() {
  BlockNames names;
  names.mamba1 = {"in", "conv", "x", "dt_norm", "b_norm", "c_norm", "dt", "A_log", "D", "out"};
  return names;
}

// A mixer's weights, also as the reference reads them.
struct MixerWeights {
  explicit MixerWeights(const Mamba1Spec& spec) {
    Random random(spec.channels);
    const auto add = [&](const std::string& name, std::size_t rows, std::size_t columns, float scale) {
      return test::add_random(source, random, name, {rows, columns}, scale);
    };
    in = add("in.weight", 2 * spec.channels, kHidden, 0.5F);
    taps = add("conv.weight", spec.channels, kTaps, 1.0F);
    conv_bias = add("conv.bias", 1, spec.channels, 1.0F);
    x = add("x.weight", kRank + 2 * kState, spec.channels, 0.3F);
    gains = {add("dt_norm.weight", 1, kRank, 1.0F), add("b_norm.weight", 1, kState, 1.0F),
             add("c_norm.weight", 1, kState, 1.0F)};
    dt = add("dt.weight", spec.channels, kRank, 1.0F);
    dt_bias = add("dt.bias", 1, spec.channels, 1.0F);
    rate = add("A_log", spec.channels, kState, 1.0F);
    direct = add("D", 1, spec.channels, 1.0F);
    out = add("out.weight", kHidden, spec.channels, 0.2F);
  }

  test::MemoryWeights source;
  std::vector<float> in, taps, conv_bias, x, dt, dt_bias, rate, direct, out;
  std::vector<std::vector<float>> gains;
};

// Normalizes the vector of dt, B and C.
void norm_parts(const MixerWeights& weights, Matrix& parts) {
  std::size_t first = 0;
  for (const std::vector<float>& gain : weights.gains) {
    test::norm_columns(parts, first, gain, kEps);
    first += gain.size();
  }
}

// One sequence's whole output.
Matrix naive_mixer(const Mamba1Spec& spec, const MixerWeights& weights, const Matrix& x) {
  const Matrix projected = test::product(x, weights.in, kHidden);
  const Matrix mixed = test::convolved_channels(projected, 0, weights.taps, weights.conv_bias);
  Matrix parts = test::product(mixed, weights.x, spec.channels);
  if (spec.norm) norm_parts(weights, parts);
  const Matrix steps = test::product(parts, weights.dt, kRank);
  Matrix y(x.rows, spec.channels);
  for (std::size_t channel = 0; channel < spec.channels; ++channel) {
    std::vector<double> state(kState, 0.0);
    for (std::size_t row = 0; row < x.rows; ++row) {
      const double dt = reference::softplus(steps(row, channel) + weights.dt_bias[channel]);
      double sum = weights.direct[channel] * mixed(row, channel);
      for (std::size_t n = 0; n < kState; ++n) {
        const double rate = std::exp(static_cast<double>(weights.rate[channel * kState + n]));
        state[n] = std::exp(-dt * rate) * state[n] + dt * mixed(row, channel) * parts(row, kRank + n);
        sum += state[n] * parts(row, kRank + kState + n);
      }
      y(row, channel) = sum * reference::silu(projected(row, spec.channels + channel));
    }
  }
  return test::product(y, weights.out, spec.channels);
}

// The mixer's output of a sequence whose tokens come in steps of these sizes. Collective over `comm`.
std::vector<float> run_mixer(Communicator& comm, const Mamba1Spec& spec, const MixerWeights& weights,
                             TensorView<const float> x, std::span<const std::size_t> steps) {
  WeightLoader loader(weights.source, {comm.rank(), comm.size()}, WeightType::f32, {},
                      WeightLoader::Mode::weights, spec.units());
  const Mamba1 mixer(loader, spec, kHidden, mixer_names());
  return test::run_layer(comm, mixer, mixer.state_floats(), x, steps);
}

constexpr std::size_t kSteps[] = {4, 1, 1, 7};
constexpr std::size_t kWhole[] = {13};
constexpr std::size_t kTokens = 13;

// Some mixers have a unit for each rank, some have too few units, and one has a small last unit.
std::vector<Mamba1Spec> mixers() {
  return {mixer_of(128, false), mixer_of(128, true), mixer_of(32, true), mixer_of(72, false)};
}

TEST(Mamba1Mixer, EqualsTheFormulasOnAnyNumberOfRanks) {
  for (const Mamba1Spec& spec : mixers()) {
    const MixerWeights weights(spec);
    Random random(3);
    const RandomTensor x(random, kTokens, kHidden);
    const std::vector<float> found = run_mixer(test::world(), spec, weights, x.view(), kSteps);
    EXPECT_CLOSE(TensorView<const float>(found.data(), kTokens, kHidden),
                 naive_mixer(spec, weights, Matrix(x.view())), 2e-5)
        << spec.channels << " channels, norms: " << spec.norm.has_value();
  }
}

TEST(Mamba1Mixer, HasTheSameBitsOnAnyNumberOfRanksAndInAnySteps) {
  Communicator self(MPI_COMM_SELF);
  for (const Mamba1Spec& spec : mixers()) {
    const MixerWeights weights(spec);
    Random random(4);
    const RandomTensor x(random, kTokens, kHidden);
    EXPECT_EQ(run_mixer(test::world(), spec, weights, x.view(), kSteps),
              run_mixer(self, spec, weights, x.view(), kWhole))
        << spec.channels << " channels, norms: " << spec.norm.has_value();
  }
}

TEST(Mamba1Mixer, NeedsASmallAllReduceAndTheOneOfItsOutput) {
  Communicator& comm = test::world();
  const Mamba1Spec spec = mixer_of(128, true);
  const MixerWeights weights(spec);
  Random random(5);
  const RandomTensor x(random, kTokens, kHidden);
  const auto before = comm.stats().all_reduce;
  run_mixer(comm, spec, weights, x.view(), kWhole);
  EXPECT_EQ(comm.stats().all_reduce.calls - before.calls, 2U);
  EXPECT_EQ(comm.stats().all_reduce.bytes - before.bytes,
            kTokens * (kRank + 2 * kState + kHidden) * sizeof(double));
}

// The parts of the state on this rank, with the floats in them.
TEST(Mamba1Mixer, HasAStatePerUnitThatDoesNotDependOnTheRanks) {
  for (const Mamba1Spec& spec : mixers()) {
    const MixerWeights weights(spec);
    std::size_t next = 0;
    for (std::size_t rank = 0; rank < 5; ++rank) {
      WeightLoader loader(weights.source, {rank, 5}, WeightType::f32, {});
      for (const StatePart& part : Mamba1(loader, spec, kHidden, mixer_names()).state_parts()) {
        EXPECT_EQ(part.index, next++);
        const std::size_t own = std::min(spec.unit(), spec.channels - part.index * spec.unit());
        std::size_t floats = 0;
        for (const StatePart::Rows& rows : part.rows) floats += rows.count * rows.floats;
        EXPECT_EQ(floats, own * (kTaps - 1 + kState)) << part.index;
      }
    }
    EXPECT_EQ(next, spec.units());
  }
}

}  // namespace
}  // namespace tp
