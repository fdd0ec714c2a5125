#include "model/layers/attention/favor.h"

#include "model/layers/linear/recurrent_runs.h"

namespace tp {
namespace {

constexpr std::uint64_t kFeatureSeed = 20210101;  // seed of KV head 0; other heads add their index

}  // namespace

Favor::Favor(Range kv_heads, std::size_t num_features, std::size_t head_dim)
    : kv_heads_(kv_heads), num_features_(num_features), head_dim_(head_dim) {
  for (std::size_t head = kv_heads.begin; head < kv_heads.end; ++head) {
    const std::vector<float> own = kernels::orthogonal_features(kFeatureSeed + head, num_features, head_dim);
    features_.insert(features_.end(), own.begin(), own.end());
  }
}

TensorView<float> Favor::operator()(TensorView<const float> query, TensorView<const float> key,
                                    TensorView<const float> value, std::span<const std::size_t> kv_of_head,
                                    float scale, const StepContext& step) const {
  const std::size_t scratch = kernels::favor_scratch(kv_of_head.size(), num_features_, head_dim_);
  const TensorView<float> out = step.workspace.take(query.rows(), query.columns());
  const kernels::FavorAttention args{.query = query,
                                     .key = key,
                                     .value = value,
                                     .kv_of_head = kv_of_head,
                                     .features = features_,
                                     .num_features = num_features_,
                                     .head_dim = head_dim_,
                                     .scale = scale,
                                     .scratch = step.workspace.take_per_thread(scratch),
                                     .out = out};
  if (!out.empty()) kernels::favor_attention(args, RecurrentRuns(step).all());
  return out;
}

std::size_t Favor::state_floats() const {
  return kernels::favor_state_floats(kv_heads_.size(), num_features_, head_dim_);
}

std::vector<StatePart> Favor::state_parts() const {
  const std::size_t floats = kernels::favor_state_floats(1, num_features_, head_dim_);
  std::vector<StatePart> parts;
  for (std::size_t head = 0; head < kv_heads_.size(); ++head)
    parts.push_back({kv_heads_.begin + head, {{head * floats, 1, floats, floats}}});
  return parts;
}

}  // namespace tp
