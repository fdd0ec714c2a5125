#include "model/layers/attention.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/experts.h"
#include "model/kernels/rope.h"
#include "model/weights/stored_projection.h"

#include <algorithm>
#include <cmath>

#include <omp.h>

namespace tp {
namespace {

// The rows of a head-wise projection that belong to a range of heads.
Range features_of(Range heads, std::size_t head_dim) {
  return {heads.begin * head_dim, heads.end * head_dim};
}

std::vector<OwnedRows> qkv_rows(const AttentionSpec& spec, std::size_t hidden_size, const BlockNames& names,
                                const HeadShard& shard) {
  const StoredQkv stored = stored_qkv(names, spec, hidden_size);
  std::vector<OwnedRows> rows;
  stored.query.append_rows(features_of(shard.query_heads, spec.head_dim), rows);
  stored.key.append_rows(features_of(shard.kv_heads, spec.head_dim), rows);
  stored.value.append_rows(features_of(shard.kv_heads, spec.head_dim), rows);
  return rows;
}

std::optional<HeadNorm> head_norm(WeightLoader& loader, const std::string& name, const AttentionSpec& spec,
                                  std::size_t heads, Range own, bool tensor_per_head) {
  if (!spec.query_key_norm || spec.norms_whole_projections) return std::nullopt;
  if (!spec.query_key_norm_per_head) return HeadNorm(loader, name, spec.head_dim, *spec.query_key_norm);
  return HeadNorm(loader, name, {heads, spec.head_dim}, *spec.query_key_norm, own, tensor_per_head);
}

// One for every token.
std::vector<float> query_factors(const QueryScalingSpec& spec, std::span<const std::size_t> positions) {
  std::vector<float> factors;
  factors.reserve(positions.size());
  for (const std::size_t position : positions) {
    const double steps = std::floor((static_cast<double>(position) + 1.0) / spec.step);
    factors.push_back(static_cast<float>(1.0 + spec.factor * std::log1p(steps)));
  }
  return factors;
}

}  // namespace

Attention::Attention(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
                     const BlockNames& names)
    : Attention(loader, spec, hidden_size, names,
                shard_heads(spec.num_attention_heads, spec.num_key_value_heads, loader.tp())) {}

Attention::Attention(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
                     const BlockNames& names, const HeadShard& shard)
    : head_dim_(spec.head_dim),
      query_size_(shard.local_heads() * spec.head_dim),
      kv_size_(shard.local_kv_heads() * spec.head_dim),
      rope_(spec.rope),
      interleaved_rope_(spec.interleaved_rope),
      norms_after_rope_(spec.norms_after_rope),
      pattern_(spec.pattern),
      scale_(spec.scale),
      softcap_(spec.softcap),
      query_scaling_(spec.query_scaling),
      qkv_proj_(loader, qkv_rows(spec, hidden_size, names, shard), spec.qkv_bias),
      query_norm_(head_norm(loader, names.q_norm, spec, spec.num_attention_heads, shard.query_heads,
                            names.norm_tensor_per_head)),
      key_norm_(head_norm(loader, names.k_norm, spec, spec.num_key_value_heads, shard.kv_heads,
                          names.norm_tensor_per_head)),
      clip_qkv_(spec.clip_qkv),
      sinks_(spec.sinks ? loader.part_of_vector(names.sinks, spec.num_attention_heads, shard.query_heads,
                                                "num_attention_heads")
                        : std::vector<float>()),
      o_proj_(loader,
              {names.o_proj,
               {hidden_size, spec.num_attention_heads * spec.head_dim},
               "hidden_size",
               "num_attention_heads x head_dim",
               names.transposed},
              features_of(shard.query_heads, spec.head_dim), spec.o_bias,
              loader.leaf_of_heads(spec.head_dim)) {
  if (spec.query_key_norm && spec.norms_whole_projections)
    projection_norm_.emplace(loader, spec, names, shard);
  for (std::size_t head = 0; head < shard.local_heads(); ++head)
    kv_of_head_.push_back(shard.local_kv_of(head));
  if (!spec.alibi_slopes.empty()) {
    for (std::size_t head = shard.query_heads.begin; head < shard.query_heads.end; ++head)
      alibi_slopes_.push_back(spec.alibi_slopes[head]);
  }
}

void Attention::normalize(TensorView<float> query, TensorView<float> key, const StepContext& step) const {
  if (projection_norm_) (*projection_norm_)(query, key, step);
  if (query_norm_) query_norm_->apply_in_place(query);
  if (key_norm_) key_norm_->apply_in_place(key);
}

PartialSum Attention::operator()(TensorView<const float> x, const StepContext& step,
                                 const kernels::PagedCache& cache) const {
  const TensorView<float> qkv = qkv_proj_(x, step);                       // [tokens, query + 2 kv]
  const TensorView<float> query = qkv.columns_from(0, query_size_);       // [tokens, query_size]
  const TensorView<float> key = qkv.columns_from(query_size_, kv_size_);  // [tokens, kv_size]
  const TensorView<float> value = qkv.columns_from(query_size_ + kv_size_, kv_size_);  // [tokens, kv_size]
  if (!norms_after_rope_) normalize(query, key, step);
  if (clip_qkv_) kernels::clip(*clip_qkv_, qkv);
  if (rope_) {
    const RopeAngles& angles = step.angles(*rope_);
    const auto rotate = interleaved_rope_ ? kernels::rotate_pairs : kernels::rotate;
    rotate(query, head_dim_, angles.cosine, angles.sine);
    rotate(key, head_dim_, angles.cosine, angles.sine);
  }
  if (norms_after_rope_) normalize(query, key, step);
  if (query_scaling_) kernels::scale_rows(query_factors(*query_scaling_, step.batch.positions), query);
  kernels::store_keys_values(key, value, step.spans(), cache);

  std::size_t max_blocks = 0;
  for (const auto& span : step.spans()) max_blocks = std::max(max_blocks, span.block_table.size());
  const std::size_t scratch = kernels::attention_scratch(kv_of_head_, cache.layout, max_blocks);
  const TensorView<float> attended = step.workspace.take(x.rows(), query_size_);
  kernels::paged_attention(
      {.query = query,
       .cache = cache,
       .spans = step.spans(),
       .kv_of_head = kv_of_head_,
       .pattern = pattern_,
       .scale = scale_,
       .softcap = softcap_,
       .alibi_slopes = alibi_slopes_,
       .sinks = sinks_,
       .scratch = step.workspace.take(static_cast<std::size_t>(omp_get_max_threads()), scratch),
       .out = attended});
  return o_proj_(attended, step);
}

kernels::KvLayout Attention::kv_layout(KvType type, std::size_t block_size) const {
  return {.type = type,
          .kv_heads = kv_size_ / head_dim_,
          .block_size = block_size,
          .key_dim = head_dim_,
          .value_dim = head_dim_};
}

}  // namespace tp
