#include "model/layers/feed_forward/router.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/experts.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace tp {
namespace {

// Finds the indices of the largest values, largest first. Plain scans are fast enough for a few values and,
// unlike sorting, safe with NaN.
void largest(std::span<const float> values, std::span<std::size_t> indices) {
  std::vector<bool> taken(values.size());
  for (std::size_t& index : indices) {
    index = static_cast<std::size_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
    for (std::size_t i = index + 1; i < values.size(); ++i) {
      if (!taken[i] && values[i] > values[index]) index = i;
    }
    taken[index] = true;
  }
}

std::vector<float> scores_of(RouterSpec::Scoring scoring, std::span<const float> logits) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (scoring == RouterSpec::Scoring::sigmoid) {
    for (float& score : scores) score = 1.0F / (1.0F + std::exp(-score));
    return scores;
  }
  if (scoring == RouterSpec::Scoring::sqrt_softplus) {
    constexpr float kLinear = 20.0F;  // from here on, softplus is x, as in the original code
    for (float& score : scores) score = std::sqrt(score > kLinear ? score : std::log1p(std::exp(score)));
    return scores;
  }
  const float highest = *std::max_element(scores.begin(), scores.end());
  float sum = 0.0F;
  for (float& score : scores) {
    score = std::exp(score - highest);
    sum += score;
  }
  for (float& score : scores) score /= sum;
  return scores;
}

// Excludes experts outside the best groups. A group's score is the sum of its best experts' scores.
void keep_best_groups(const RouterSpec& spec, std::span<float> ranking) {
  const std::size_t size = ranking.size() / spec.num_groups;
  std::vector<float> group_scores(spec.num_groups);
  std::vector<std::size_t> best(spec.experts_scoring_group);
  for (std::size_t group = 0; group < spec.num_groups; ++group) {
    const std::span<const float> members = ranking.subspan(group * size, size);
    largest(members, best);
    for (const std::size_t member : best) group_scores[group] += members[member];
  }
  std::vector<std::size_t> kept(spec.groups_per_tok);
  largest(group_scores, kept);
  for (std::size_t group = 0; group < spec.num_groups; ++group) {
    if (std::find(kept.begin(), kept.end(), group) != kept.end()) continue;
    std::ranges::fill(ranking.subspan(group * size, size), -INFINITY);
  }
}

// Repeatedly chooses the highest logit. An expert's weight is its softmax over the experts that have not been
// chosen yet and whose logits are within the tolerance.
void mix_sparsely(const RouterSpec& spec, std::span<const float> logits, std::span<std::size_t> experts,
                  std::span<float> weights) {
  std::vector<float> left(logits.begin(), logits.end());
  for (std::size_t i = 0; i < experts.size(); ++i) {
    largest(left, experts.subspan(i, 1));
    const float highest = left[experts[i]];
    float sum = 0.0F;
    for (std::size_t j = 0; j < left.size(); ++j) {
      const bool is_far = (highest - logits[j]) / std::max(std::abs(logits[j]), highest) > spec.tolerance;
      if (!is_far) sum += std::exp(left[j] - highest);
    }
    weights[i] = spec.scale / sum;
    left[experts[i]] = -INFINITY;
  }
}

// The norm of the router's input, whose gain includes the input's factor.
std::optional<Norm> input_norm(WeightLoader& loader, const RouterSpec& spec, std::size_t hidden_size,
                               const ExpertNames& names) {
  if (!spec.input_norm) return std::nullopt;
  std::vector<float> gain = loader.whole_vector(names.router_scale, hidden_size, "hidden_size");
  for (float& element : gain) element *= spec.input_scale;
  return Norm(*spec.input_norm, std::move(gain), {});
}

// `scores`: of all experts.
void weigh(const RouterSpec& spec, std::span<const float> scores, std::span<const std::size_t> experts,
           std::span<float> weights) {
  float sum = 0.0F;
  for (const std::size_t expert : experts) sum += scores[expert];
  // All sigmoids may be 0. As in the original code, min_sum then prevents division by zero.
  const float factor =
      spec.normalize ? spec.scale / std::max(sum + spec.added_to_sum, spec.min_sum) : spec.scale;
  for (std::size_t i = 0; i < experts.size(); ++i) weights[i] = scores[experts[i]] * factor;
}

// The experts of each token, if a table has them.
std::vector<std::uint16_t> read_token_table(WeightLoader& loader, const RouterSpec& spec,
                                            const std::string& tensor) {
  if (spec.token_table == 0) return {};
  const MatrixShape shape{spec.token_table, spec.num_experts_per_tok};
  loader.count({.bytes = shape.size() * sizeof(std::uint16_t)});
  std::vector<std::uint16_t> table(shape.size());
  if (!loader.reads()) return table;
  const std::vector<std::int64_t> experts =
      loader.source().whole_numbers(tensor, shape, "vocab_size, num_experts_per_tok");
  if (experts.empty()) {  // synthetic weights
    for (std::size_t i = 0; i < table.size(); ++i)
      table[i] = static_cast<std::uint16_t>((i / shape.columns + i % shape.columns) % spec.num_experts);
    return table;
  }
  for (std::size_t i = 0; i < table.size(); ++i) {
    require<CheckpointError>(experts[i] >= 0 && std::cmp_less(experts[i], spec.num_experts),
                             "cannot use {}: expected numbers of experts, 0 to {}, found {}; download the "
                             "checkpoint again",
                             tensor, spec.num_experts - 1, experts[i]);
    const std::size_t row = i - i % shape.columns;
    // A sum over experts that had a token twice would have a race.
    require<CheckpointError>(
        std::ranges::find(experts.begin() + static_cast<std::ptrdiff_t>(row),
                          experts.begin() + static_cast<std::ptrdiff_t>(i),
                          experts[i]) == experts.begin() + static_cast<std::ptrdiff_t>(i),
        "cannot use {}: expected different experts for token {}, found {} twice; download the checkpoint "
        "again",
        tensor, i / shape.columns, experts[i]);
    table[i] = static_cast<std::uint16_t>(experts[i]);
  }
  return table;
}

}  // namespace

Routing::Routing(std::size_t num_experts, std::size_t num_experts_per_tok,
                 std::span<const std::size_t> experts, std::span<const float> weights)
    : first_(num_experts + 1), rows_(experts.size()), weights_(experts.size()) {
  for (const std::size_t expert : experts) ++first_[expert + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    const std::size_t entry = next[experts[i]]++;
    rows_[entry] = i / num_experts_per_tok;
    weights_[entry] = weights[i];
  }
}

void choose_experts(const RouterSpec& spec, std::span<const float> logits, std::span<const float> bias,
                    std::span<std::size_t> experts, std::span<float> weights) {
  if (spec.scoring == RouterSpec::Scoring::sparse_mixer) return mix_sparsely(spec, logits, experts, weights);
  const std::vector<float> scores = scores_of(spec.scoring, logits);
  std::vector<float> ranking = scores;
  for (std::size_t i = 0; i < bias.size(); ++i) ranking[i] += bias[i];
  if (spec.groups_per_tok < spec.num_groups) keep_best_groups(spec, ranking);
  largest(ranking, experts);
  weigh(spec, scores, experts, weights);
}

void weigh_experts(const RouterSpec& spec, std::span<const float> logits,
                   std::span<const std::size_t> experts, std::span<float> weights) {
  weigh(spec, scores_of(spec.scoring, logits), experts, weights);
}

Router::Router(WeightLoader& loader, const RouterSpec& spec, std::size_t hidden_size,
               const ExpertNames& names)
    : spec_(spec),
      hidden_size_(hidden_size),
      weight_(loader.whole_weight({names.router, {spec.num_experts, hidden_size}, "experts", "hidden_size"})),
      token_table_(read_token_table(loader, spec, names.token_table)),
      input_norm_(input_norm(loader, spec, hidden_size, names)) {
  if (spec.bias)
    bias_ = loader.whole_vector(tensor_names::bias_of(names.router), spec.num_experts, "experts");
  if (spec.correction_bias)
    correction_bias_ = loader.whole_vector(names.correction_bias, spec.num_experts, "experts");
  if (spec.per_expert_scale)
    per_expert_scale_ = loader.whole_vector(names.per_expert_scale, spec.num_experts, "experts");
}

Routing Router::operator()(TensorView<const float> x, const StepContext& step) const {
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> logits = step.workspace.take(x.rows(), spec_.num_experts);
  if (input_norm_) x = (*input_norm_)(x, step.workspace);
  kernels::router_logits(x, {weight_.data(), spec_.num_experts, hidden_size_}, logits);
  if (!bias_.empty()) kernels::add_bias(bias_, logits);

  const std::size_t per_token = logits.empty() ? 1 : spec_.num_experts_per_tok;
  std::vector<std::size_t> experts(x.rows() * per_token);
  std::vector<float> weights(x.rows() * per_token);
  if (logits.empty()) return {spec_.num_experts, per_token, experts, weights};
  for (std::size_t token = 0; token < x.rows(); ++token) {
    const std::span<const float> own_logits(logits.row(token), spec_.num_experts);
    const std::span<std::size_t> chosen = std::span(experts).subspan(token * per_token, per_token);
    const std::span<float> own_weights = std::span(weights).subspan(token * per_token, per_token);
    if (token_table_.empty()) {
      choose_experts(spec_, own_logits, correction_bias_, chosen, own_weights);
    } else {
      const auto id = static_cast<std::size_t>(step.batch.tokens[token]);
      std::copy_n(token_table_.data() + id * per_token, per_token, chosen.begin());
      weigh_experts(spec_, own_logits, chosen, own_weights);
    }
  }
  if (!per_expert_scale_.empty()) {
    for (std::size_t i = 0; i < experts.size(); ++i) weights[i] *= per_expert_scale_[experts[i]];
  }
  return {spec_.num_experts, per_token, experts, weights};
}

}  // namespace tp
