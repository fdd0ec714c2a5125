#include "model/kernels/delta_rule.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/recurrent_inputs.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/reference/delta_rule.h"
#include "tests/reference/kernels.h"
#include "tests/reference/mamba.h"
#include "tests/reference/random.h"

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

using kernels::Activation;
using kernels::RecurrentRun;
using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

// Tokens of two sequences. Their heads share key heads in twos and ones.
class DeltaProblem {
 public:
  // `decays`: per head, 1 or key_dim.
  DeltaProblem(std::size_t key_dim, std::size_t value_dim, std::size_t tokens, bool corrects = true,
               std::size_t decays = 1)
      : random_(key_dim * 100 + value_dim),
        corrects_(corrects),
        key_dim_(key_dim),
        value_dim_(value_dim),
        query_(random_, tokens, 2 * key_dim, 3),
        key_(random_, tokens, 2 * key_dim, 3),
        value_(random_, tokens, 3 * value_dim, 1),
        decay_(random_, tokens, 3 * decays, 2),
        strength_(random_, tokens, 3, 2) {
    for (std::size_t token = 0; token < tokens; ++token) {
      for (const TensorView<float>& gates : {decay_.view(), strength_.view()}) {
        for (std::size_t i = 0; i < gates.columns(); ++i)
          gates(token, i) = 0.5F + gates(token, i) / 2;  // [0, 1)
      }
      // As short as in models, because states would grow otherwise.
      for (std::size_t i = 0; i < 2 * key_dim; ++i)
        key_.view()(token, i) /= std::sqrt(static_cast<float>(key_dim));
    }
  }

  kernels::DeltaShape shape() const {
    return {.key_heads = 2,
            .value_heads = 3,
            .key_dim = key_dim_,
            .value_dim = value_dim_,
            .decays_rows = decay_.view().columns() != 3};
  }
  std::size_t state_floats() const { return shape().floats(); }
  std::size_t tokens() const { return query_.view().rows(); }

  TensorView<float> decays() const { return decay_.view(); }

  // Results: [tokens, 3 * value_dim].
  Matrix run(std::span<const RecurrentRun> runs) const {
    std::vector<float> out(tokens() * 3 * value_dim_, NAN);
    const TensorView<float> view(out.data(), tokens(), 3 * value_dim_);
    const auto threads = static_cast<std::size_t>(omp_get_max_threads());
    std::vector<float> scratch(threads * kernels::delta_scratch(shape()), NAN);
    const std::size_t per_token = kernels::delta_dots(shape(), corrects_);
    std::vector<float> dots(tokens() * per_token, NAN);
    kernels::delta_rule({.query = query_.view(),
                         .key = key_.view(),
                         .value = value_.view(),
                         .decay = decay_.view(),
                         .strength = strength_.view(),
                         .key_of_head = kKeyOfHead,
                         .shape = shape(),
                         .corrects = corrects_,
                         .scratch = {scratch.data(), threads, kernels::delta_scratch(shape())},
                         .dots = {dots.data(), tokens(), per_token},
                         .out = view},
                        runs);
    return Matrix(view);
  }

  // Sequences begin at a run's beginning.
  Matrix expected(std::span<const RecurrentRun> runs) const {
    Matrix all(tokens(), 3 * value_dim_);
    for (const RecurrentRun& run : runs) {
      for (std::size_t head = 0; head < 3; ++head) {
        reference::DeltaHead state(key_dim_, value_dim_);
        reference::MambaHead sums(value_dim_, key_dim_);
        for (std::size_t token = run.first_token; token < run.first_token + run.tokens; ++token) {
          const std::size_t first = kKeyOfHead[head] * key_dim_;
          const std::span query(query_.view().row(token) + first, key_dim_);
          const std::span key(key_.view().row(token) + first, key_dim_);
          const std::span value(value_.view().row(token) + head * value_dim_, value_dim_);
          const std::size_t decays = decay_.view().columns() / 3;
          const std::span decay(decay_.view().row(token) + head * decays, decays);
          const double strength = strength_.view()(token, head);
          const std::vector<double> result =
              corrects_ ? state.next(query, key, value, decay, strength)
                        : sums.next(value, key, query, strength, std::log(decay.front()) / strength);
          for (std::size_t i = 0; i < value_dim_; ++i) all(token, head * value_dim_ + i) = result[i];
        }
      }
    }
    return all;
  }

 private:
  static constexpr std::size_t kKeyOfHead[] = {0, 0, 1};

  Random random_;
  bool corrects_;
  std::size_t key_dim_;
  std::size_t value_dim_;
  RandomTensor query_, key_, value_, decay_, strength_;
};

// Memory of a state. It contains no zeros before its sequence begins.
std::vector<float> used_memory(std::size_t floats) { return std::vector<float>(floats, NAN); }

// Results are sums of some tens of numbers below 1.
constexpr double kStateTolerance = 2e-5;

void expect_reference_for_every_width(bool corrects, bool decays_channels = false) {
  for (const std::size_t key_dim : {1U, 2U, 7U, 16U, 33U}) {
    for (std::size_t value_dim = 1; value_dim <= 67; value_dim += value_dim < 18 ? 1 : 7) {
      const DeltaProblem problem(key_dim, value_dim, 9, corrects, decays_channels ? key_dim : 1);
      std::vector<float> first = used_memory(problem.state_floats());
      std::vector<float> second = used_memory(problem.state_floats());
      const std::vector<RecurrentRun> runs = {{.first_token = 0, .tokens = 4, .state = first.data()},
                                              {.first_token = 4, .tokens = 5, .state = second.data()}};
      const Matrix expected = problem.expected(runs);
      const Matrix found = problem.run(runs);
      for (std::size_t i = 0; i < expected.values.size(); ++i)
        ASSERT_NEAR(found.values[i], expected.values[i], kStateTolerance) << key_dim << " " << value_dim;
    }
  }
}

TEST(DeltaRule, EqualsTheReferenceForEveryWidth) { expect_reference_for_every_width(true); }

TEST(DeltaRule, EqualsMambasReferenceWithoutCorrections) { expect_reference_for_every_width(false); }

TEST(DeltaRule, EqualsTheReferenceWithADecayForEachChannel) { expect_reference_for_every_width(true, true); }

// Rounding errors decay with the state, so they do not grow with the number of tokens.
void expect_reference_over_many_tokens(bool corrects, std::size_t decays) {
  constexpr std::size_t kTokens = 4000;
  const DeltaProblem problem(32, 16, kTokens, corrects, decays);
  std::vector<float> state = used_memory(problem.state_floats());
  const std::vector<RecurrentRun> run = {{.tokens = kTokens, .state = state.data()}};
  const Matrix expected = problem.expected(run);
  const Matrix found = problem.run(run);
  for (std::size_t i = 0; i < expected.values.size(); ++i)
    ASSERT_NEAR(found.values[i], expected.values[i], kStateTolerance) << i / expected.columns;
}

TEST(DeltaRule, StaysCloseToTheReferenceOverManyTokens) {
  expect_reference_over_many_tokens(false, 1);
  expect_reference_over_many_tokens(true, 1);
  expect_reference_over_many_tokens(true, 32);
}

// Returns the floats of a state at this position.
std::vector<float> kept_floats(const kernels::DeltaShape& shape, const std::vector<float>& state,
                               std::size_t position) {
  const std::size_t since = position % kernels::kAnchorTokens;
  std::vector<float> kept;
  const auto keep = [&](std::size_t begin, std::size_t floats) {
    kept.insert(kept.end(), state.begin() + static_cast<std::ptrdiff_t>(begin),
                state.begin() + static_cast<std::ptrdiff_t>(begin + floats));
  };
  for (std::size_t head = 0; head < shape.key_heads; ++head)
    keep(shape.keys(head), since * shape.key_stride());
  for (std::size_t head = 0; head < shape.value_heads; ++head) {
    keep(shape.matrix(head), shape.matrix_floats());
    keep(shape.decays_of(head), since * shape.decay_stride());
    keep(shape.additions(head), since * shape.value_stride());
  }
  return kept;
}

void expect_equal_rows(const Matrix& found, const Matrix& expected, std::size_t begin, std::size_t end) {
  for (std::size_t token = begin; token < end; ++token) {
    for (std::size_t i = 0; i < found.columns; ++i)
      ASSERT_EQ(found(token, i), expected(token, i)) << token << " " << i;
  }
}

constexpr std::size_t kPieceTokens = 300;

struct WholeRun {
  explicit WholeRun(const DeltaProblem& problem)
      : state(used_memory(problem.state_floats())),
        out(problem.run({{{.tokens = problem.tokens(), .state = state.data()}}})) {}

  std::vector<float> state;
  Matrix out;
};

// Pieces of a size give the bits of the whole run, together with another sequence. Stale floats are NaN.
void expect_same_bits_in_pieces(const DeltaProblem& problem, const WholeRun& whole, std::size_t size) {
  std::vector<float> state = used_memory(problem.state_floats());
  std::vector<float> other = used_memory(problem.state_floats());
  for (std::size_t begin = 0; begin < kPieceTokens; begin += size) {
    const std::size_t tokens = std::min(size, kPieceTokens - begin);
    std::vector<RecurrentRun> runs;
    if (begin > 0) runs.push_back({.tokens = begin, .state = other.data()});
    runs.push_back({.first_token = begin, .tokens = tokens, .position = begin, .state = state.data()});
    ASSERT_NO_FATAL_FAILURE(expect_equal_rows(problem.run(runs), whole.out, begin, begin + tokens))
        << "pieces of " << size;
  }
  EXPECT_EQ(kept_floats(problem.shape(), state, kPieceTokens),
            kept_floats(problem.shape(), whole.state, kPieceTokens));
}

void expect_same_bits_in_any_pieces(bool corrects, std::size_t decays = 1) {
  const DeltaProblem problem(40, 96, kPieceTokens, corrects, decays);
  const WholeRun whole(problem);
  for (const int threads : {1, 3, 8}) {
    omp_set_num_threads(threads);
    for (const std::size_t size : {1U, 7U, 63U, 64U, 65U, 300U})
      expect_same_bits_in_pieces(problem, whole, size);
  }
  omp_set_num_threads(1);
}

TEST(DeltaRule, GivesTheSameBitsInAnyPieces) { expect_same_bits_in_any_pieces(true); }
TEST(DeltaRule, GivesTheSameBitsInAnyPiecesWithoutCorrections) { expect_same_bits_in_any_pieces(false); }
TEST(DeltaRule, GivesTheSameBitsInAnyPiecesWithADecayForEachChannel) {
  expect_same_bits_in_any_pieces(true, 40);
}

// Covers positions before, at and after anchors, in a run that begins after an anchor.
void expect_copies(std::size_t decays) {
  constexpr std::size_t kBefore = 70;
  constexpr std::size_t kTokens = 210;
  const DeltaProblem problem(12, 20, kTokens, true, decays);
  const WholeRun whole(problem);
  std::vector<float> state = used_memory(problem.state_floats());
  problem.run({{{.tokens = kBefore, .state = state.data()}}});
  const std::size_t positions[] = {71, 127, 128, 130, 200, 210};
  std::vector<std::vector<float>> kept(std::size(positions), used_memory(problem.state_floats()));
  std::vector<kernels::StateCopy> copies;
  for (std::size_t i = 0; i < kept.size(); ++i) copies.push_back({positions[i] - kBefore, kept[i].data()});
  problem.run({{{.first_token = kBefore,
                 .tokens = kTokens - kBefore,
                 .position = kBefore,
                 .state = state.data(),
                 .copies = copies}}});
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::size_t begin = positions[i];
    if (begin < kTokens) {
      const Matrix rest = problem.run(
          {{{.first_token = begin, .tokens = kTokens - begin, .position = begin, .state = kept[i].data()}}});
      expect_equal_rows(rest, whole.out, begin, kTokens);
    }
    EXPECT_EQ(kept_floats(problem.shape(), kept[i], kTokens),
              kept_floats(problem.shape(), whole.state, kTokens))
        << begin;
  }
}

TEST(DeltaRule, CopiesTheStateAfterAToken) {
  expect_copies(1);
  expect_copies(12);
}

// Products of decays become zero, not NaN.
TEST(DeltaRule, StaysFiniteWithVeryStrongDecays) {
  const DeltaProblem problem(16, 16, 130, true, 1);
  for (std::size_t token = 0; token < 130; ++token) problem.decays()(token, 0) = 1e-30F;
  std::vector<float> state = used_memory(problem.state_floats());
  const std::vector<RecurrentRun> run = {{.tokens = 130, .state = state.data()}};
  const Matrix expected = problem.expected(run);
  const Matrix found = problem.run(run);
  for (std::size_t i = 0; i < expected.values.size(); ++i)
    ASSERT_NEAR(found.values[i], expected.values[i], kStateTolerance) << i;
}

// Returns the convolution of all tokens of a run, channel by channel, plus the bias if it is not empty,
// optionally with silu.
Matrix convolved(TensorView<const float> x, TensorView<const float> taps, const std::vector<float>& bias,
                 bool activated, std::size_t tokens) {
  Matrix all(tokens, x.columns());
  for (std::size_t channel = 0; channel < x.columns(); ++channel) {
    std::vector<double> values;
    std::vector<double> weights;
    for (std::size_t token = 0; token < tokens; ++token) values.push_back(x(token, channel));
    for (std::size_t tap = 0; tap < taps.rows(); ++tap) weights.push_back(taps(tap, channel));
    for (std::size_t token = 0; token < tokens; ++token) {
      const double sum = reference::convolved(values, weights, token) + (bias.empty() ? 0.0 : bias[channel]);
      all(token, channel) = activated ? reference::silu(sum) : sum;
    }
  }
  return all;
}

TEST(CausalConvolution, EqualsTheReferenceForEveryNumberOfTapsAndChannels) {
  for (std::size_t taps = 1; taps <= 6; ++taps) {
    for (const std::size_t channels : {1U, 15U, 16U, 40U}) {
      Random random(taps * channels);
      const RandomTensor x(random, 9, channels, 2);
      const RandomTensor weight(random, taps, channels);
      const RandomTensor out(random, 9, channels, 1);
      for (const bool activated : {true, false}) {
        std::vector<float> state = used_memory((taps - 1) * channels);
        const std::vector<RecurrentRun> runs = {{.tokens = 9, .state = state.data()}};
        const std::optional<Activation> activation =
            activated ? std::optional(Activation::silu) : std::nullopt;
        kernels::causal_convolution(x.view(), weight.view(), {}, activation, runs, out.view());
        EXPECT_CLOSE(out.view(), convolved(x.view(), weight.view(), {}, activated, 9), 2e-6)
            << taps << " " << channels << " " << activated;
        const std::vector<float> bias = random.numbers(channels);
        kernels::causal_convolution(x.view(), weight.view(), bias, activation, runs, out.view());
        EXPECT_CLOSE(out.view(), convolved(x.view(), weight.view(), bias, activated, 9), 2e-6)
            << "with a bias " << taps << " " << channels << " " << activated;
      }
    }
  }
}

TEST(CausalConvolution, RemembersInputsForLaterPieces) {
  constexpr std::size_t kTaps = 4;
  Random random(3);
  const RandomTensor x(random, 20, 24);
  const RandomTensor weight(random, kTaps, 24);
  const RandomTensor whole(random, 20, 24);
  const RandomTensor out(random, 20, 24);
  std::vector<float> whole_state = used_memory((kTaps - 1) * 24);
  std::vector<float> kept = used_memory((kTaps - 1) * 24);
  const std::vector<kernels::StateCopy> copies = {{2, kept.data()}};
  const std::vector<RecurrentRun> all = {{.tokens = 20, .state = whole_state.data(), .copies = copies}};
  kernels::causal_convolution(x.view(), weight.view(), {}, Activation::silu, all, whole.view());
  for (const bool from_copy : {false, true}) {
    std::vector<float> state = from_copy ? kept : used_memory((kTaps - 1) * 24);
    std::size_t size = 1;
    for (std::size_t begin = from_copy ? 2 : 0; begin < 20; begin += size++) {
      const std::vector<RecurrentRun> run = {{.first_token = begin,
                                              .tokens = std::min<std::size_t>(size, 20 - begin),
                                              .position = begin,
                                              .state = state.data()}};
      kernels::causal_convolution(x.view(), weight.view(), {}, Activation::silu, run, out.view());
    }
    EXPECT_EQ(state, whole_state);
    for (std::size_t token = from_copy ? 2 : 0; token < 20; ++token) {
      for (std::size_t i = 0; i < 24; ++i) ASSERT_EQ(out.view()(token, i), whole.view()(token, i)) << token;
    }
  }
}

TEST(DeltaGates, AreADecayBetweenZeroAndOneAndAStrength) {
  const std::vector<float> rate = {0.5F, 2.0F};
  const std::vector<float> bias = {0.25F, -1.0F};
  std::vector<float> decay = {0.0F, 1.0F, 40.0F, -60.0F};
  std::vector<float> strength = {0.0F, 3.0F, -200.0F, 200.0F};
  kernels::delta_gates({}, rate, bias, {decay.data(), 2, 2}, {strength.data(), 2, 2});
  EXPECT_NEAR(decay[0], std::exp(-0.5 * std::log1p(std::exp(0.25))), 1e-6);
  EXPECT_NEAR(decay[1], std::exp(-2.0 * std::log1p(std::exp(0.0))), 1e-6);
  EXPECT_NEAR(decay[2], std::exp(-0.5 * 40.25), 1e-6);
  EXPECT_EQ(decay[3], 1.0F);
  EXPECT_EQ(strength[0], 0.5F);
  EXPECT_NEAR(strength[1], 1.0 / (1.0 + std::exp(-3.0)), 1e-6);
  EXPECT_EQ(strength[2], 0.0F);
  EXPECT_EQ(strength[3], 1.0F);
}

// exp(-5 sigmoid(rate (x + bias))), and strengths up to 2.
TEST(DeltaGates, KeepDecaysAboveTheirFloor) {
  const std::vector<float> rate = {0.5F, 2.0F};
  const std::vector<float> bias = {0.25F, -1.0F};
  std::vector<float> decay = {0.0F, 1.0F, 400.0F, -600.0F};
  std::vector<float> strength = {0.0F, 200.0F};
  kernels::delta_gates({.decay_floor = -5.0F, .strength_scale = 2.0F}, rate, bias, {decay.data(), 2, 2},
                       {strength.data(), 1, 2});
  EXPECT_NEAR(decay[0], std::exp(-5.0 / (1.0 + std::exp(-0.5 * 0.25))), 1e-6);
  EXPECT_NEAR(decay[1], std::exp(-5.0 / 2.0), 1e-6);
  EXPECT_NEAR(decay[2], std::exp(-5.0), 1e-8);
  EXPECT_EQ(decay[3], 1.0F);
  EXPECT_EQ(strength[0], 1.0F);
  EXPECT_EQ(strength[1], 2.0F);
}

TEST(Gates, ScaleTheElementsOfTheirGroups) {
  const std::vector<float> gate = {0.0F, 100.0F, -100.0F, 1.0F};
  std::vector<float> by_softplus = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F, 8.0F};
  std::vector<float> by_sigmoid = by_softplus;
  kernels::multiply_gates(true, {gate.data(), 2, 2}, 2, {by_softplus.data(), 2, 4});
  kernels::multiply_gates(false, {gate.data(), 2, 2}, 2, {by_sigmoid.data(), 2, 4});
  const double at_one = std::log1p(std::exp(1.0));
  const std::vector<double> softplus = {std::log(2.0), 2 * std::log(2.0), 300, 400, 0, 0,
                                        7 * at_one,    8 * at_one};
  const double sigmoid_of_one = 1.0 / (1.0 + std::exp(-1.0));
  const std::vector<double> sigmoid = {0.5, 1, 3, 4, 0, 0, 7 * sigmoid_of_one, 8 * sigmoid_of_one};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(by_softplus[i], softplus[i], 1e-5) << i;
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(by_sigmoid[i], sigmoid[i], 1e-6) << i;
}

// The activation is the square of relu, so only the limits act otherwise: min(relu(gate)^2, 2) * clamp(up,
// -2, 2), or relu(min(gate, 2))^2 as the first factor.
TEST(Gates, LimitAnActivationOrTheGateFromAboveAndTheOtherFactorOnBothSides) {
  for (const bool limits_gate : {false, true}) {
    std::vector<float> gate_up = {-1.0F, 1.0F, 3.0F, 5.0F, 0.5F, -9.0F};
    std::vector<float> out(3);
    kernels::activate_limit_and_multiply(Activation::relu_squared, 2.0F, limits_gate, {gate_up.data(), 1, 6},
                                         {out.data(), 1, 3});
    EXPECT_EQ(out, (std::vector<float>{0.0F, 0.5F, limits_gate ? -8.0F : -4.0F}));
  }
}

TEST(Gates, MayBeBoundedOnBothSidesOfTheProduct) {
  std::vector<float> gate_up = {-3.0F, 0.5F, 20.0F, 7.0F, -1.0F, 0.25F};
  const std::vector<float> x = gate_up;
  std::vector<float> out(3);
  kernels::situ_and_multiply({.beta = 4.0F, .linear_beta = 6.0F}, {gate_up.data(), 1, 6}, {out.data(), 1, 3});
  for (std::size_t i = 0; i < 3; ++i) {
    const double gate = x[i];
    const double up = x[3 + i];
    const double expected = 4 * std::tanh(gate / 4) / (1 + std::exp(-gate)) * 6 * std::tanh(up / 6);
    EXPECT_NEAR(out[i], expected, 1e-5) << i;
  }
}

TEST(MambaGates, AreASoftplusAndTheDecayForThatLong) {
  const std::vector<float> rate = {0.5F, 2.0F};
  const std::vector<float> bias = {0.25F, -1.0F};
  const std::vector<float> x = {0.0F, 1.0F, 40.0F, -60.0F};
  std::vector<float> decay(4, NAN);
  std::vector<float> strength(4, NAN);
  kernels::mamba_gates(rate, bias, {x.data(), 2, 2}, {decay.data(), 2, 2}, {strength.data(), 2, 2});
  for (std::size_t i = 0; i < 4; ++i) {
    const double dt = reference::softplus(static_cast<double>(x[i]) + bias[i % 2]);
    EXPECT_NEAR(strength[i], dt, 1e-6 * dt + 1e-7) << i;
    EXPECT_NEAR(decay[i], std::exp(-rate[i % 2] * dt), 1e-6) << i;
  }
}

}  // namespace
}  // namespace tp
