// Compares proposals from logits that are divided among the ranks with whole rows in double precision.
#include "runtime/sampling/sharded_proposal.h"

#include "tests/runtime/sampling/choice_on_ranks.h"

#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kProposalVocabulary = 301;

struct ProposalCase {
  std::vector<float> logits;
  SamplingParams params;
  ProposalSettings settings;
  std::uint64_t position = 0;
};

// Returns rank 0's proposals, and nothing on the other ranks.
std::vector<Proposal> propose_together(const std::vector<ProposalCase>& cases) {
  Communicator& comm = test::world();
  const Range own = test::even_shards(comm, cases.front().logits.size())[comm.rank()];
  std::vector<ProposalRow> rows;
  for (const ProposalCase& one : cases) {
    rows.push_back({.logits = std::span(one.logits).subspan(own.begin, own.size()),
                    .params = &one.params,
                    .key = {.seed = 11, .sample = 0, .position = one.position},
                    .settings = one.settings});
  }
  const auto parts = contribute_proposals(comm, rows, static_cast<TokenId>(own.begin));
  const auto all = gather_rows(comm, parts, std::vector<ShardRowSize>(rows.size(), kProposalSize));
  std::vector<Proposal> proposals;
  for (std::size_t i = 0; i < all.size(); ++i) proposals.push_back(conclude_proposal(rows[i], all[i]));
  return proposals;
}

std::vector<float> random_row(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  std::vector<float> row(kProposalVocabulary);
  for (float& logit : row) logit = normal(random);
  return row;
}

// Returns the probabilities of a whole row after temperature, top-k and top-p. A temperature of 0 counts as
// 1, without a draw.
std::vector<double> naive_probabilities(const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<double> weights;
  const double inverse = params.greedy() ? 1.0 : 1.0 / static_cast<double>(params.temperature);
  for (const float logit : logits) weights.push_back(std::exp(static_cast<double>(logit) * inverse));
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) {
    for (std::size_t i = static_cast<std::size_t>(params.top_k); i < order.size(); ++i) weights[order[i]] = 0;
  }
  const auto normalize = [&] {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight /= sum;
  };
  normalize();
  double before = 0.0;
  for (const std::size_t token : order) {
    const double own = weights[token];
    if (before >= static_cast<double>(params.top_p)) weights[token] = 0;
    before += own;
  }
  normalize();
  return weights;
}

double naive_measure(const std::vector<double>& probabilities, ProposalMeasure measure, TokenId proposed) {
  if (measure == ProposalMeasure::probability) return probabilities[static_cast<std::size_t>(proposed)];
  if (measure == ProposalMeasure::entropy) {
    double sum = 0.0;
    for (const double p : probabilities) sum += p > 0 ? p * std::log(p) : 0.0;
    return sum;
  }
  std::vector<double> sorted = probabilities;
  std::ranges::sort(sorted, std::greater<>());
  return sorted[0] - sorted[1];
}

TEST(ShardedProposal, HasTheConfidenceOfTheWholeRow) {
  std::vector<ProposalCase> cases;
  for (const ProposalMeasure measure :
       {ProposalMeasure::probability, ProposalMeasure::margin, ProposalMeasure::entropy}) {
    for (const bool filtered : {false, true}) {
      for (const SamplingParams& params :
           {SamplingParams{.temperature = 0.0F}, SamplingParams{.temperature = 0.7F},
            SamplingParams{.temperature = 1.3F, .top_k = 20, .top_p = 0.8F},
            SamplingParams{.temperature = 0.0F, .top_k = 5}}) {
        const auto seed = static_cast<std::uint32_t>(cases.size());
        cases.push_back({random_row(seed), params, {.measure = measure, .filtered = filtered}, seed});
      }
    }
  }
  const std::vector<Proposal> proposals = propose_together(cases);
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    const ProposalCase& one = cases[i];
    const auto of_draw = naive_probabilities(one.logits, one.params);
    const auto judged = one.settings.filtered ? of_draw : naive_probabilities(one.logits, SamplingParams{});
    ASSERT_GE(proposals[i].id, 0);
    EXPECT_GT(of_draw[static_cast<std::size_t>(proposals[i].id)], 0.0) << i;
    // The sums' exponentials are float32.
    EXPECT_NEAR(proposals[i].confidence, naive_measure(judged, one.settings.measure, proposals[i].id), 2e-6)
        << i;
    if (!one.params.greedy()) continue;
    const auto best = std::ranges::max_element(one.logits) - one.logits.begin();
    EXPECT_EQ(proposals[i].id, best) << i;
  }
}

TEST(ShardedProposal, DrawsInProportionToTheProbabilities) {
  const std::vector<float> row = {0.0F, 1.0F, 2.0F, -1.0F, 1.5F, 0.5F, -30.0F, 0.25F};
  constexpr std::size_t kDraws = 4000;
  std::vector<ProposalCase> cases;
  for (std::size_t i = 0; i < kDraws; ++i)
    cases.push_back({row, {.temperature = 0.8F}, {.filtered = true}, i});
  const std::vector<double> expected = naive_probabilities(row, cases.front().params);
  std::vector<double> found(row.size());
  for (const Proposal& proposal : propose_together(cases))
    found[static_cast<std::size_t>(proposal.id)] += 1.0 / kDraws;
  if (!test::world().is_root()) return;
  // Five standard deviations.
  for (std::size_t i = 0; i < row.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 5 * std::sqrt(expected[i] / kDraws) + 1e-9);
}

TEST(ShardedProposal, ChoosesTheLowestIdAmongEqualLogitsOnAnyNumberOfRanks) {
  std::vector<float> row(kProposalVocabulary, 1.0F);
  row[0] = 0.5F;
  const std::vector<Proposal> proposals = propose_together({{row, {.temperature = 0.0F}, {}}});
  if (proposals.empty()) return;
  EXPECT_EQ(proposals[0].id, 1);
  const double sum = 300.0 + std::exp(-0.5);
  EXPECT_NEAR(proposals[0].confidence, 1.0 / sum, 1e-8);
}

// Compares bits, because confidences order positions. The constant is from one rank's run.
TEST(ShardedProposal, ConfidencesHaveTheSameBitsOnAnyNumberOfRanks) {
  const std::vector<float> row = random_row(77);
  const auto settings = ProposalSettings{.measure = ProposalMeasure::entropy};
  const std::vector<Proposal> proposals =
      propose_together({{row, {.temperature = 0.0F}, {}}, {row, {.temperature = 0.0F}, settings}});
  if (proposals.empty()) return;
  const float max = *std::ranges::max_element(row);
  std::vector<float> relative;
  for (const float logit : row) relative.push_back(logit - max);
  const ExpSums whole = exact_exp_sums(relative, 0.0F, true);
  EXPECT_EQ(proposals[0].confidence, std::exp(0.0 - whole.log_sum_exp()));
  EXPECT_EQ(proposals[1].confidence, -whole.entropy());
}

TEST(ShardedProposal, NeverIsTheMaskThoughItCountsInTheSum) {
  std::vector<float> row = random_row(5);
  row[150] = 20.0F;
  const auto of = [&](float temperature) {
    return ProposalCase{row, {.temperature = temperature}, {.mask_token = 150}, 3};
  };
  const std::vector<Proposal> proposals = propose_together({of(0.0F), of(1.0F)});
  if (proposals.empty()) return;
  std::vector<float> others = row;
  others[150] = -INFINITY;
  EXPECT_EQ(proposals[0].id, std::ranges::max_element(others) - others.begin());
  EXPECT_LT(proposals[0].confidence, 1e-3);
  EXPECT_NE(proposals[1].id, 150);
}

TEST(ShardedProposal, IsMissingForNanLogits) {
  std::vector<float> row = random_row(6);
  std::vector<float> spoilt = row;
  spoilt[299] = NAN;
  const std::vector<Proposal> proposals =
      propose_together({{spoilt, {.temperature = 0.5F}, {}}, {row, {.temperature = 0.5F}, {}}});
  if (proposals.empty()) return;
  EXPECT_EQ(proposals[0].id, -1);
  EXPECT_GE(proposals[1].id, 0);
}

}  // namespace
}  // namespace tp
