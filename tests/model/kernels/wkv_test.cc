// RWKV-7's recurrence, and the operations around it, against their formulas in double precision.
#include "model/kernels/wkv.h"

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

// The largest difference; infinite if a difference is NaN.
double apart(const std::vector<float>& found, const std::vector<double>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference = std::abs(found[i] - expected[i]);
    largest = std::max(largest, std::isnan(difference) ? HUGE_VAL : difference);
  }
  return largest;
}

// One sequence.
struct WkvProblem {
  std::size_t tokens = 0;
  std::size_t heads = 0;
  std::size_t head_dim = 0;
  std::vector<float> receptance, decay, key, value, removal, correction;
  std::vector<float> out;
  std::vector<float> state;

  WkvProblem(std::size_t tokens_, std::size_t heads_, std::size_t head_dim_)
      : tokens(tokens_), heads(heads_), head_dim(head_dim_) {
    Random random(heads * 100 + head_dim);
    for (std::vector<float>* const input : {&receptance, &decay, &key, &value, &removal, &correction})
      *input = random.numbers(tokens * size());
    const float length = std::sqrt(static_cast<float>(head_dim));
    for (float& element : decay) element = 0.75F + 0.2F * element;
    for (float& element : removal) element /= length;
    for (float& element : correction) element /= length;
    out.resize(value.size());
    state.assign(heads * kernels::wkv_head_floats(head_dim), 77.0F);
  }

  std::size_t size() const { return heads * head_dim; }
  TensorView<float> view(std::vector<float>& elements) const { return {elements.data(), tokens, size()}; }

  void run(std::size_t first, std::size_t count, std::span<const kernels::StateCopy> copies = {}) {
    const std::vector<kernels::RecurrentRun> runs = {
        {.first_token = first, .tokens = count, .position = first, .state = state.data(), .copies = copies}};
    kernels::wkv_scan({.receptance = view(receptance),
                       .decay = view(decay),
                       .key = view(key),
                       .value = view(value),
                       .removal = view(removal),
                       .correction = view(correction),
                       .head_dim = head_dim,
                       .out = view(out)},
                      runs);
  }

  std::vector<double> expected() const {
    std::vector<double> result(out.size());
    for (std::size_t head = 0; head < heads; ++head) {
      std::vector<double> matrix(head_dim * head_dim, 0.0);  // [keys, values]
      for (std::size_t token = 0; token < tokens; ++token) {
        const std::size_t at = token * size() + head * head_dim;
        for (std::size_t column = 0; column < head_dim; ++column) {
          double read = 0.0;
          for (std::size_t row = 0; row < head_dim; ++row)
            read += removal[at + row] * matrix[row * head_dim + column];
          for (std::size_t row = 0; row < head_dim; ++row) {
            double& element = matrix[row * head_dim + column];
            element = element * decay[at + row] - correction[at + row] * read +
                      static_cast<double>(key[at + row]) * value[at + column];
            result[at + column] += receptance[at + row] * element;
          }
        }
      }
    }
    return result;
  }
};

TEST(WkvScan, EqualsItsFormulas) {
  for (const std::size_t heads : {1, 3}) {
    for (const std::size_t head_dim : {1, 2, 15, 16, 18, 64}) {
      WkvProblem problem(70, heads, head_dim);
      problem.run(0, problem.tokens);
      EXPECT_LT(apart(problem.out, problem.expected()), 2e-5) << heads << " heads of " << head_dim;
    }
  }
}

TEST(WkvScan, HasTheSameBitsInAnySteps) {
  WkvProblem whole(23, 2, 18);
  WkvProblem cut = whole;
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

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// The second head has no key, so its removal direction has no length.
TEST(WkvInputs, EqualTheirFormulas) {
  constexpr std::size_t kTokens = 5;
  constexpr std::size_t kHeadDim = 12;
  constexpr std::size_t kSize = 2 * kHeadDim;
  Random random(1);
  std::vector<float> key = random.numbers(kTokens * kSize);
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = i % kSize < kHeadDim ? key[i] : 0.0F;
  std::vector<float> decay = random.numbers(key.size());
  for (float& element : decay) element *= 20.0F;
  std::vector<float> strength = random.numbers(key.size());
  const std::vector<float> removal_gain = random.numbers(kSize);
  const std::vector<float> key_gain = random.numbers(kSize);
  std::vector<double> keys, decays, corrections, removals;
  for (std::size_t token = 0; token < kTokens; ++token) {
    for (std::size_t i = 0; i < kSize; ++i) {
      const std::size_t at = token * kSize + i;
      double squares = 0.0;
      for (std::size_t j = i / kHeadDim * kHeadDim; j < (i / kHeadDim + 1) * kHeadDim; ++j)
        squares += std::pow(static_cast<double>(key[token * kSize + j]) * removal_gain[j], 2);
      const double share = logistic(strength[at]);
      removals.push_back(squares == 0.0 ? 0.0 : key[at] * removal_gain[i] / std::sqrt(squares));
      corrections.push_back(removals.back() * share);
      keys.push_back(key[at] * (1.0 + (share - 1.0) * key_gain[i]));
      decays.push_back(std::exp(-std::exp(-0.5) * logistic(decay[at])));
    }
  }
  std::vector<float> removal(key.size(), 77.0F);
  const auto view = [](std::vector<float>& all) { return TensorView<float>(all.data(), kTokens, kSize); };
  kernels::wkv_inputs({.key = view(key),
                       .decay = view(decay),
                       .strength = view(strength),
                       .removal = view(removal),
                       .removal_gain = removal_gain,
                       .key_gain = key_gain,
                       .head_dim = kHeadDim});
  EXPECT_LT(apart(key, keys), 1e-6);
  EXPECT_LT(apart(decay, decays), 1e-6);
  EXPECT_LT(apart(strength, corrections), 1e-6);
  EXPECT_LT(apart(removal, removals), 1e-6);
}

TEST(WkvBonus, IsTheValueTimesAProductOfTheHead) {
  constexpr std::size_t kTokens = 3;
  constexpr std::size_t kHeadDim = 7;
  constexpr std::size_t kSize = 2 * kHeadDim;
  Random random(2);
  std::vector<float> receptance = random.numbers(kTokens * kSize);
  std::vector<float> key = random.numbers(kTokens * kSize);
  std::vector<float> value = random.numbers(kTokens * kSize);
  std::vector<float> out = random.numbers(kTokens * kSize);
  const std::vector<float> weight = random.numbers(kSize);
  std::vector<double> expected;
  for (std::size_t i = 0; i < out.size(); ++i) {
    double sum = 0.0;
    for (std::size_t j = i / kHeadDim * kHeadDim; j < (i / kHeadDim + 1) * kHeadDim; ++j)
      sum += static_cast<double>(receptance[j]) * key[j] * weight[j % kSize];
    expected.push_back(out[i] + sum * value[i]);
  }
  const auto view = [](std::vector<float>& all) { return TensorView<float>(all.data(), kTokens, kSize); };
  kernels::add_wkv_bonus({.receptance = view(receptance),
                          .key = view(key),
                          .value = view(value),
                          .weight = weight,
                          .head_dim = kHeadDim},
                         view(out));
  EXPECT_LT(apart(out, expected), 1e-6);
}

}  // namespace
}  // namespace tp
