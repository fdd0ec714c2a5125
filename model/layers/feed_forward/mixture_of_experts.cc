#include "model/layers/feed_forward/mixture_of_experts.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/experts.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace tp {
namespace {

std::vector<OwnedRows> gate_up_rows(const StoredExpert& stored, bool gated, Range columns) {
  std::vector<OwnedRows> rows;
  if (gated) stored.gate.append_rows(columns, rows);
  stored.up.append_rows(columns, rows);
  return rows;
}

std::vector<Expert> load_experts(WeightLoader& loader, const MixtureOfExpertsSpec& spec,
                                 std::size_t hidden_size, const ExpertNames& names) {
  const ExpertSpec expert{.intermediate_size = spec.intermediate_size,
                          .activation = spec.activation,
                          .gated = spec.gated,
                          .bias = spec.bias,
                          .weigh_input = spec.weigh_input,
                          .limit = spec.limit,
                          .limits_gate = spec.limits_gate,
                          .situ = spec.situ};
  const ExpertStacks stacks(loader.source(), names, spec.router.num_experts);
  std::vector<Expert> experts;
  experts.reserve(spec.router.num_experts);
  const LoadedWeights before = loader.loaded();
  const std::size_t size = spec.latent_size != 0 ? spec.latent_size : hidden_size;
  for (std::size_t index = 0; index < spec.router.num_experts; ++index)
    experts.emplace_back(loader, expert, stacks.expert(index, spec.intermediate_size, size));
  loader.count_experts_since(before);
  return experts;
}

}  // namespace

Expert::Expert(WeightLoader& loader, const ExpertSpec& spec, const StoredExpert& stored)
    : Expert(loader, spec, stored, loader.own_columns(spec.intermediate_size)) {}

Expert::Expert(WeightLoader& loader, const ExpertSpec& spec, const StoredExpert& stored, Range columns)
    : activation_(spec.activation),
      gated_(spec.gated),
      weigh_input_(spec.weigh_input),
      limit_(spec.limit),
      limits_gate_(spec.limits_gate),
      situ_(spec.situ),
      gate_up_proj_(loader, gate_up_rows(stored, spec.gated, columns), spec.bias),
      down_proj_(loader, stored.down, columns, spec.bias, loader.leaf_of_columns(spec.intermediate_size)) {}

TensorView<float> Expert::activated(TensorView<const float> x, const StepContext& step) const {
  if (gated_ && (situ_ || limit_ != 0.0F)) {
    const TensorView<float> gate_up = gate_up_proj_(x, step);
    const TensorView<float> out = step.workspace.take(x.rows(), gate_up.columns() / 2);
    if (situ_)
      kernels::situ_and_multiply(*situ_, gate_up, out);
    else
      kernels::activate_limit_and_multiply(activation_, limit_, limits_gate_, gate_up, out);
    return out;
  }
  if (gated_) return gate_up_proj_.gated(x, activation_, step);
  const TensorView<float> up = gate_up_proj_(x, step);
  kernels::activate(activation_, up);
  return up;
}

void Expert::add_to(PartialSum& sum, TensorView<const float> x, const ExpertTokens& tokens,
                    const StepContext& step) const {
  if (tokens.rows.empty()) return;
  if (step.adapters == nullptr || step.adapters->empty()) return add_rows_to(sum, x, tokens, step);
  const AdapterRows adapters = step.adapters->of(tokens.rows);
  StepContext own = step;
  own.adapters = &adapters;
  add_rows_to(sum, x, tokens, own);
}

void Expert::add_rows_to(PartialSum& sum, TensorView<const float> x, const ExpertTokens& tokens,
                         const StepContext& step) const {
  const std::size_t count = tokens.rows.size();
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> expert_in = step.workspace.take(count, x.columns());  // [count, hidden_size]
  kernels::gather_rows(x, tokens.rows, expert_in);
  if (weigh_input_) kernels::scale_rows(tokens.weights, expert_in);
  const TensorView<float> inner = activated(expert_in, step);  // [count, local_size]
  if (weigh_input_) return sum.add_to_rows(down_proj_(inner, step), tokens.rows);
  // The weights scale `inner` instead of the output, which is wider. This is equivalent because down_proj_ is
  // linear except for its bias, which is scaled separately.
  kernels::scale_rows(tokens.weights, inner);
  sum.add_to_rows(down_proj_.with_scaled_bias(inner, tokens.weights, step), tokens.rows);
}

MixtureOfExperts::MixtureOfExperts(WeightLoader& loader, const MixtureOfExpertsSpec& spec,
                                   std::size_t hidden_size, const BlockNames& names)
    : router_(loader, spec.router, hidden_size, names.experts),
      latent_(load_latent(loader, spec, hidden_size, names.experts)),
      experts_(load_experts(loader, spec, hidden_size, names.experts)),
      shared_scale_(spec.shared_scale) {
  // One rank adds the bias, like the biases of row-parallel layers.
  if (spec.output_bias && loader.tp().is_first())
    output_bias_ = loader.whole_vector(names.experts.output_bias, hidden_size, "hidden_size");
  if (spec.shared_intermediate_size != 0) {
    const ExpertSpec shared{.intermediate_size = spec.shared_intermediate_size,
                            .activation = spec.activation,
                            .gated = spec.gated,
                            .limit = spec.shared_limit,
                            .limits_gate = spec.limits_gate,
                            .situ = spec.situ};
    shared_expert_.emplace(loader, shared,
                           stored_expert(loader.source(), names.experts.shared_expert,
                                         spec.shared_intermediate_size, hidden_size));
  }
  if (spec.shared_expert_gate) {
    shared_expert_gate_ = loader.whole_vector(tensor_names::weight_of(names.experts.shared_expert_gate),
                                              hidden_size, "hidden_size");
  }
}

std::optional<MixtureOfExperts::Latent> MixtureOfExperts::load_latent(WeightLoader& loader,
                                                                      const MixtureOfExpertsSpec& spec,
                                                                      std::size_t hidden_size,
                                                                      const ExpertNames& names) {
  constexpr const char* kLatent = "moe_latent_size";
  if (spec.latent_size == 0) return std::nullopt;
  const std::vector<OwnedRows> down = {
      {{names.latent_down, {spec.latent_size, hidden_size}, kLatent, "hidden_size"}, {0, spec.latent_size}}};
  const StoredLayer up{names.latent_up, {hidden_size, spec.latent_size}, "hidden_size", kLatent};
  const Range columns = loader.own_columns(spec.latent_size);
  std::optional<Norm> norm;
  if (spec.latent_norm) norm.emplace(loader, names.latent_norm, spec.latent_size, *spec.latent_norm, kLatent);
  return Latent{ColumnParallelLinear(loader, down, false), std::move(norm),
                RowParallelLinear(loader, up, columns, false, loader.leaf_of_columns(spec.latent_size)),
                columns};
}

PartialSum MixtureOfExperts::operator()(TensorView<const float> x, TensorView<const float> router_input,
                                        const StepContext& step) const {
  PartialSum sum = latent_ ? routed_in_latent(x, router_input, step) : routed(x, router_input, step);
  if (shared_expert_) add_shared_expert(sum, x, step);
  return sum;
}

PartialSum MixtureOfExperts::routed_in_latent(TensorView<const float> x, TensorView<const float> router_input,
                                              const StepContext& step) const {
  PartialSum sum = routed(latent_->down(x, step), router_input, step);
  const TensorView<float> whole = step.workspace.take(sum.shape().rows(), sum.shape().columns());
  sum_or_count(step, std::move(sum), whole);
  if (latent_->norm) latent_->norm->apply_in_place(whole);
  return latent_->up(whole.columns_from(latent_->columns.begin, latent_->columns.size()), step);
}

PartialSum MixtureOfExperts::routed(TensorView<const float> x, TensorView<const float> router_input,
                                    const StepContext& step) const {
  PartialSum sum = experts_.front().nothing_but(output_bias_, x.rows(), step);
  const Routing routing = router_(router_input, step);
  for (std::size_t index = 0; index < experts_.size(); ++index) {
    experts_[index].add_to(sum, x, routing.of(index), step);
  }
  return sum;
}

void MixtureOfExperts::add_shared_expert(PartialSum& sum, TensorView<const float> x,
                                         const StepContext& step) const {
  std::vector<std::size_t> all(x.rows());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<float> weights(x.rows(), shared_scale_);
  if (!shared_expert_gate_.empty()) {
    kernels::router_logits(x, {shared_expert_gate_.data(), 1, x.columns()}, {weights.data(), x.rows(), 1});
    for (float& weight : weights) weight = shared_scale_ / (1.0F + std::exp(-weight));
  }
  shared_expert_->add_to(sum, x, {all, weights}, step);
}

}  // namespace tp
