// Compares beam search with a naive one over whole rows. Tables replace a model.
#include "runtime/modes/beam_state.h"

#include "tests/reference/beam_search.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kWords = 24;

// Log-probabilities that depend on the last two tokens.
class TableModel {
 public:
  explicit TableModel(std::uint32_t seed) : seed_(seed) {}

  std::vector<double> row(const std::vector<TokenId>& generated) const {
    std::uint32_t state = seed_;
    for (std::size_t i = generated.size() - std::min<std::size_t>(generated.size(), 2); i < generated.size();
         ++i)
      state = state * 31 + static_cast<std::uint32_t>(generated[i]) + 1;
    std::mt19937 random(state);
    std::normal_distribution<double> normal(0.0, 2.0);
    std::vector<double> row(kWords);
    double sum = 0.0;
    for (double& logit : row) sum += std::exp(logit = normal(random));
    // Rounded like the numbers that ranks send.
    for (double& logit : row) logit = static_cast<double>(static_cast<float>(logit - std::log(sum)));
    return row;
  }

  std::vector<TokenLogprob> best(const std::vector<TokenId>& generated, std::size_t count) const {
    const std::vector<double> all = row(generated);
    std::vector<TokenLogprob> sorted;
    for (std::size_t id = 0; id < all.size(); ++id)
      sorted.push_back({static_cast<TokenId>(id), static_cast<float>(all[id])});
    std::ranges::stable_sort(sorted, std::greater<>(), &TokenLogprob::logprob);
    if (sorted.size() > count) sorted.resize(count);
    return sorted;
  }

 private:
  std::uint32_t seed_;
};

std::vector<FinishedBeam> search(const BeamSearch& params, const std::vector<TokenId>& ends,
                                 std::size_t max_tokens, const TableModel& model) {
  BeamState state(params, ends, max_tokens);
  while (!state.running().empty()) {
    std::vector<std::vector<TokenLogprob>> candidates;
    for (const Beam& beam : state.running())
      candidates.push_back(model.best(beam.tokens, state.wanted_candidates()));
    state.advance(candidates);
  }
  return state.finished();
}

TEST(BeamState, FindsTheTextsOfANaiveSearchOverWholeRows) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int min, int max) { return std::uniform_int_distribution<int>(min, max)(random); };
    const BeamSearch params{.beams = draw(1, 6),
                            .length_penalty = static_cast<float>(draw(-2, 4)) / 2.0F,
                            .stop = static_cast<BeamSearch::Stop>(draw(0, 2))};
    std::vector<TokenId> ends;
    for (int i = draw(0, 2); i > 0; --i) ends.push_back(i * 3);
    const auto max_tokens = static_cast<std::size_t>(draw(1, 12));
    const TableModel model(seed * 7 + 1);
    const auto expected = reference::beam_search(
        params, ends, max_tokens, [&](const std::vector<TokenId>& text) { return model.row(text); });
    const std::vector<FinishedBeam> found = search(params, ends, max_tokens, model);
    ASSERT_EQ(found.size(), expected.size()) << "seed " << seed;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].beam.tokens, expected[i].tokens) << "seed " << seed << ", text " << i;
      EXPECT_NEAR(found[i].score, expected[i].score, 1e-6);
    }
  }
}

TEST(BeamState, WithOneBeamIsGreedyUntilTheTextEnds) {
  const TableModel model(5);
  std::vector<TokenId> greedy;
  while (greedy.size() < 10) greedy.push_back(model.best(greedy, 1).front().id);
  EXPECT_EQ(search({.beams = 1}, {}, 10, model).front().beam.tokens, greedy);
}

TEST(BeamState, PrefersLongTextsByAGreaterLengthPenalty) {
  std::size_t lengths[2] = {0, 0};
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const TableModel model(seed);
    for (int i = 0; i < 2; ++i) {
      const BeamSearch params{
          .beams = 4, .length_penalty = i == 0 ? 0.0F : 2.0F, .stop = BeamSearch::Stop::never};
      lengths[i] += search(params, {0, 1}, 12, model).front().beam.tokens.size();
    }
  }
  EXPECT_LT(lengths[0], lengths[1]);
}

TEST(BeamState, StopsEarlierTheLessItHopesFor) {
  std::size_t steps[3] = {0, 0, 0};
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const TableModel model(seed);
    for (std::size_t stop = 0; stop < 3; ++stop) {
      BeamState state({.beams = 3, .stop = static_cast<BeamSearch::Stop>(stop)}, {0, 1, 2}, 20);
      for (; !state.running().empty(); ++steps[stop]) {
        std::vector<std::vector<TokenLogprob>> candidates;
        for (const Beam& beam : state.running()) candidates.push_back(model.best(beam.tokens, 12));
        state.advance(candidates);
      }
    }
  }
  EXPECT_LT(steps[0], steps[1]);
  EXPECT_LT(steps[1], steps[2]);
}

}  // namespace
}  // namespace tp
