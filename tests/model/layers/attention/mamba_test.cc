// The Mamba-2 mixer against its formulas in double precision, on any number of ranks.
#include "model/layers/attention/mamba.h"

#include "tests/model/kernels/expect_close.h"
#include "tests/model/layers/attention/mixer_run.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/mpi_test.h"
#include "tests/reference/delta_rule.h"
#include "tests/reference/kernels.h"
#include "tests/reference/mamba.h"
#include "tests/reference/random.h"
#include "tp/mpi.h"

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
constexpr std::size_t kHeadDim = 16;
constexpr std::size_t kState = 5;
constexpr std::size_t kTaps = 4;
constexpr float kEps = 1e-3F;

MambaSpec mixer_of(std::size_t heads, std::size_t groups) {
  MambaSpec spec;
  spec.num_heads = heads;
  spec.head_dim = kHeadDim;
  spec.num_groups = groups;
  spec.state_size = kState;
  spec.conv_kernel = kTaps;
  return spec;
}

MambaSpec with_norm(MambaSpec spec, std::size_t groups) {
  spec.norm = NormSpec{.eps = kEps};
  spec.norm_groups = groups;
  return spec;
}

BlockNames mixer_names() {
  BlockNames names;
  names.mamba = {"in", "conv", "dt_bias", "A_log", "D", "norm", "out"};
  return names;
}

// A mixer's weights, also as the reference reads them.
struct MixerWeights {
  explicit MixerWeights(const MambaSpec& spec) {
    Random random(spec.num_heads);
    const std::size_t inner = spec.num_heads * kHeadDim;
    const std::size_t channels = inner + 2 * spec.num_groups * kState;
    const auto add = [&](const std::string& name, std::size_t rows, std::size_t columns, float scale) {
      return test::add_random(source, random, name, {rows, columns}, scale);
    };
    in = add("in.weight", inner + channels + spec.num_heads, kHidden, 0.5F);
    taps = add("conv.weight", channels, kTaps, 1.0F);
    conv_bias = add("conv.bias", 1, channels, 1.0F);
    dt_bias = add("dt_bias", 1, spec.num_heads, 1.0F);
    rate = add("A_log", 1, spec.num_heads, 1.0F);
    direct = add("D", 1, spec.num_heads, 1.0F);
    gain = add("norm.weight", 1, inner, 1.0F);
    out = add("out.weight", kHidden, inner, 0.2F);
  }

  test::MemoryWeights source;
  std::vector<float> in, taps, conv_bias, dt_bias, rate, direct, gain, out;
};

// The columns of z, x, B, C and dt of all heads, times their factors.
Matrix projected(const MambaSpec& spec, const MixerWeights& weights, const Matrix& x) {
  const std::size_t inner = spec.num_heads * kHeadDim;
  const std::size_t state = spec.num_groups * kState;
  Matrix y = test::product(x, weights.in, kHidden);
  const std::size_t ends[] = {inner, 2 * inner, 2 * inner + state, 2 * inner + 2 * state, y.columns};
  for (std::size_t row = 0; row < y.rows; ++row) {
    for (std::size_t part = 0, i = 0; part < 5; ++part) {
      for (; i < ends[part]; ++i) y(row, i) *= static_cast<double>(spec.scales.at(part));
    }
  }
  return y;
}

void norm_groups(const MambaSpec& spec, const MixerWeights& weights, Matrix& y) {
  const std::size_t size = y.columns / spec.norm_groups;
  for (std::size_t first = 0; first < y.columns; first += size)
    test::norm_columns(y, first, std::span(weights.gain).subspan(first, size), kEps);
}

// One sequence's whole output.
Matrix naive_mixer(const MambaSpec& spec, const MixerWeights& weights, const Matrix& x) {
  const std::size_t inner = spec.num_heads * kHeadDim;
  const std::size_t state = spec.num_groups * kState;
  const Matrix all = projected(spec, weights, x);
  const Matrix mixed = test::convolved_channels(all, inner, weights.taps, weights.conv_bias);
  Matrix y(x.rows, inner);
  for (std::size_t head = 0; head < spec.num_heads; ++head) {
    reference::MambaHead recurrence(kHeadDim, kState);
    const std::size_t group = head / (spec.num_heads / spec.num_groups);
    for (std::size_t row = 0; row < x.rows; ++row) {
      const std::span channels(&mixed.values.at(row * mixed.columns), mixed.columns);
      const std::span own = channels.subspan(head * kHeadDim, kHeadDim);
      const double dt =
          reference::softplus(all(row, all.columns - spec.num_heads + head) + weights.dt_bias[head]);
      const std::vector<double> result =
          recurrence.next(own, channels.subspan(inner + group * kState, kState),
                          channels.subspan(inner + state + group * kState, kState), dt,
                          -std::exp(static_cast<double>(weights.rate[head])));
      for (std::size_t i = 0; i < kHeadDim; ++i)
        y(row, head * kHeadDim + i) =
            (result[i] + weights.direct[head] * own[i]) * reference::silu(all(row, head * kHeadDim + i));
    }
  }
  if (spec.norm) norm_groups(spec, weights, y);
  for (double& value : y.values) value *= static_cast<double>(spec.output_scale);
  return test::product(y, weights.out, inner);
}

// The mixer's output of a sequence whose tokens come in steps of these sizes. Collective over `comm`.
std::vector<float> run_mixer(Communicator& comm, const MambaSpec& spec, const MixerWeights& weights,
                             TensorView<const float> x, std::span<const std::size_t> steps) {
  WeightLoader loader(weights.source, {comm.rank(), comm.size()}, WeightType::f32, {},
                      WeightLoader::Mode::weights, spec.num_heads);
  const Mamba mixer(loader, spec, kHidden, mixer_names());
  return test::run_layer(comm, mixer, mixer.state_floats(), x, steps);
}

constexpr std::size_t kSteps[] = {4, 1, 1, 7};
constexpr std::size_t kWhole[] = {13};
constexpr std::size_t kTokens = 13;

// Mixers with groups that divide evenly among the ranks, and mixers with others.
std::vector<MambaSpec> mixers() {
  MambaSpec scaled = with_norm(mixer_of(6, 2), 2);
  scaled.scales = {0.5F, 1.5F, 0.75F, 1.25F, 0.8F};
  scaled.output_scale = 0.6F;
  return {mixer_of(6, 3),
          with_norm(mixer_of(8, 1), 1),
          with_norm(mixer_of(6, 2), 1),
          with_norm(mixer_of(8, 4), 4),
          with_norm(mixer_of(2, 2), 2),
          scaled};
}

TEST(MambaMixer, EqualsTheFormulasOnAnyNumberOfRanks) {
  for (const MambaSpec& spec : mixers()) {
    const MixerWeights weights(spec);
    Random random(3);
    const RandomTensor x(random, kTokens, kHidden);
    const std::vector<float> found = run_mixer(test::world(), spec, weights, x.view(), kSteps);
    EXPECT_CLOSE(TensorView<const float>(found.data(), kTokens, kHidden),
                 naive_mixer(spec, weights, Matrix(x.view())), 2e-5)
        << spec.num_heads << " heads, " << spec.num_groups << " groups, " << spec.norm_groups;
  }
}

TEST(MambaMixer, HasTheSameBitsOnAnyNumberOfRanksAndInAnySteps) {
  Communicator self(MPI_COMM_SELF);
  for (const MambaSpec& spec : mixers()) {
    const MixerWeights weights(spec);
    Random random(4);
    const RandomTensor x(random, kTokens, kHidden);
    EXPECT_EQ(run_mixer(test::world(), spec, weights, x.view(), kSteps),
              run_mixer(self, spec, weights, x.view(), kWhole))
        << spec.num_heads << " heads, " << spec.num_groups << " groups, " << spec.norm_groups;
  }
}

// The number of all-reduces of one step, except the one for the output.
std::uint64_t exchanges(const MambaSpec& spec) {
  Communicator& comm = test::world();
  const MixerWeights weights(spec);
  Random random(5);
  const RandomTensor x(random, kTokens, kHidden);
  const std::uint64_t before = comm.stats().all_reduce.calls;
  run_mixer(comm, spec, weights, x.view(), kWhole);
  return comm.stats().all_reduce.calls - before - 1;
}

TEST(MambaMixer, ExchangesSquaresOnlyOfGroupsThatAreDivided) {
  const std::size_t ranks = test::world().size();
  EXPECT_EQ(exchanges(mixer_of(8, 4)), 0U) << "without a norm";
  EXPECT_EQ(exchanges(with_norm(mixer_of(8, 4), 4)), 0U) << "a group for each rank";
  EXPECT_EQ(exchanges(with_norm(mixer_of(8, 1), 1)), ranks == 1 ? 0U : 1U) << "one norm of all heads";
  EXPECT_EQ(exchanges(with_norm(mixer_of(8, 2), 2)), ranks <= 2 ? 0U : 1U) << "fewer groups than ranks";
}

}  // namespace
}  // namespace tp
