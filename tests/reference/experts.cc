#include "tests/reference/experts.h"

#include "tests/reference/kernels.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tp::reference {
namespace {

// Returns all indices, the largest value first. Equal values keep their order.
std::vector<std::size_t> sorted(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
}

std::vector<double> scores_of(RouterSpec::Scoring scoring, const std::vector<double>& logits) {
  std::vector<double> scores;
  double sum = 0.0;
  for (const double logit : logits) {
    scores.push_back(scoring == RouterSpec::Scoring::sigmoid ? 1.0 / (1.0 + std::exp(-logit))
                                                             : std::exp(logit));
    sum += scores.back();
  }
  if (scoring == RouterSpec::Scoring::softmax) {
    for (double& score : scores) score /= sum;
  }
  return scores;
}

}  // namespace

std::vector<ExpertChoice> choose_experts(const RouterSpec& spec, const std::vector<double>& logits,
                                         const std::vector<double>& bias) {
  const std::vector<double> scores = scores_of(spec.scoring, logits);
  std::vector<double> ranking = scores;
  for (std::size_t i = 0; i < bias.size(); ++i) ranking[i] += bias[i];

  const std::size_t group_size = spec.num_experts / spec.num_groups;
  std::vector<double> group_scores;
  for (std::size_t group = 0; group < spec.num_groups; ++group) {
    std::vector<double> members(ranking.begin() + static_cast<std::ptrdiff_t>(group * group_size),
                                ranking.begin() + static_cast<std::ptrdiff_t>((group + 1) * group_size));
    std::sort(members.rbegin(), members.rend());
    group_scores.push_back(std::accumulate(
        members.begin(), members.begin() + static_cast<std::ptrdiff_t>(spec.experts_scoring_group), 0.0));
  }
  std::vector<std::size_t> groups = sorted(group_scores);
  groups.resize(spec.groups_per_tok);

  std::vector<ExpertChoice> chosen;
  double sum = 0.0;
  for (const std::size_t expert : sorted(ranking)) {
    if (chosen.size() == spec.num_experts_per_tok) break;
    if (std::find(groups.begin(), groups.end(), expert / group_size) == groups.end()) continue;
    chosen.push_back({expert, scores[expert]});
    sum += scores[expert];
  }
  for (ExpertChoice& choice : chosen) choice.weight *= spec.normalize ? spec.scale / sum : spec.scale;
  return chosen;
}

Matrix expert(const ExpertWeights& weights, const Matrix& x, kernels::Activation activation) {
  const auto linear = [](const Matrix& in, const Matrix& weight, const std::vector<double>& bias) {
    Matrix y = matmul(in, weight);
    if (!bias.empty()) add_bias(bias, y);
    return y;
  };
  const Matrix gate = linear(x, weights.gate, weights.gate_bias);
  const Matrix up = linear(x, weights.up, weights.up_bias);
  Matrix gate_up(x.rows, 2 * gate.columns);
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t i = 0; i < gate.columns; ++i) {
      gate_up(t, i) = gate(t, i);
      gate_up(t, gate.columns + i) = up(t, i);
    }
  }
  return linear(activate_and_multiply(activation, gate_up), weights.down, weights.down_bias);
}

}  // namespace tp::reference
