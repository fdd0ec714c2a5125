#include "model/layers/linear/projection_norm.h"

#include "model/kernels/projection_norm.h"
#include "tp/internal/require.h"

#include <string>

namespace tp {

ProjectionNorm::ProjectionNorm(WeightLoader& loader, const AttentionSpec& spec, const BlockNames& names,
                               const HeadShard& shard)
    : head_dim_(spec.head_dim),
      eps_(spec.query_key_norm.value().eps),
      query_(load(loader, *spec.query_key_norm, names.q_norm, spec.head_dim, spec.num_attention_heads,
                  shard.query_heads, shard.query_heads)),
      key_(load(loader, *spec.query_key_norm, names.k_norm, spec.head_dim, spec.num_key_value_heads,
                shard.kv_heads, shard.owned_kv_heads())) {}

ProjectionNorm::Part ProjectionNorm::load(WeightLoader& loader, const NormSpec& spec, const std::string& name,
                                          std::size_t head_dim, std::size_t heads, Range held,
                                          Range counted) {
  require<ConfigError>(spec.kind == NormSpec::Kind::rms,
                       "cannot load {}: expected an RMS norm of whole projections, found a layer norm; check "
                       "the family's spec",
                       name);
  const std::vector<float> whole =
      loader.whole_vector(tensor_names::weight_of(name), heads * head_dim, "heads x head_dim");
  Part part{.size = whole.size(),
            .gain = {},
            .first_column = (counted.begin - held.begin) * head_dim,
            .columns = counted.size() * head_dim};
  for (std::size_t i = held.begin * head_dim; i < held.end * head_dim; ++i)
    part.gain.push_back(whole[i] + spec.gain_offset);
  return part;
}

void ProjectionNorm::operator()(TensorView<float> query, TensorView<float> key,
                                const StepContext& step) const {
  const Workspace::Frame frame(step.workspace);
  const TensorView<double> squares = step.workspace.take_doubles(query.rows(), 2);
  const TensorView<float> sums = step.workspace.take(query.rows(), 2);
  kernels::sum_squares(query.columns_from(query_.first_column, query_.columns), head_dim_,
                       squares.columns_from(0, 1));
  kernels::sum_squares(key.columns_from(key_.first_column, key_.columns), head_dim_,
                       squares.columns_from(1, 1));
  sum_or_count(step, PartialSum(squares, kernels::kExactSquaresBelow), sums);
  kernels::scale_to_norm(query, sums.columns_from(0, 1), query_.size, eps_, query_.gain);
  kernels::scale_to_norm(key, sums.columns_from(1, 1), key_.size, eps_, key_.gain);
}

}  // namespace tp
