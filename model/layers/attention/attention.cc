#include "model/layers/attention/attention.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/experts.h"
#include "model/kernels/rope.h"
#include "model/kernels/streams.h"
#include "model/layers/attention/far_keys.h"
#include "model/layers/attention/host_attention.h"
#include "model/layers/attention/query_scaling.h"
#include "model/layers/attention/relative_bias.h"
#include "model/weights/stored_projection.h"

#include <algorithm>

namespace tp {
namespace {

// A projection's rows for a range of heads.
Range features_of(Range heads, std::size_t head_dim) {
  return {heads.begin * head_dim, heads.end * head_dim};
}

std::vector<OwnedRows> qkv_rows(const AttentionSpec& spec, std::size_t hidden_size, const BlockNames& names,
                                const HeadShard& shard) {
  const StoredQkv stored = stored_qkv(names, spec, spec.input_size != 0 ? spec.input_size : hidden_size);
  std::vector<OwnedRows> rows;
  stored.query.append_rows(features_of(shard.query_heads, spec.head_dim), rows);
  if (!spec.shared_kv_layer) {
    stored.key.append_rows(features_of(shard.kv_heads, spec.head_dim), rows);
    if (!spec.values_are_keys) stored.value.append_rows(features_of(shard.kv_heads, spec.value_dim()), rows);
  }
  if (spec.output_gate)
    stored.gate.append_rows(features_of(shard.query_heads, spec.gate_per_head ? 1 : spec.head_dim), rows);
  return rows;
}

std::optional<ColumnParallelLinear> load_global_qkv(WeightLoader& loader, const AttentionSpec& spec,
                                                    std::size_t hidden_size, BlockNames names,
                                                    const HeadShard& shard) {
  if (!spec.global_projections) return std::nullopt;
  names.q_proj = names.q_global;
  names.k_proj = names.k_global;
  names.v_proj = names.v_global;
  return ColumnParallelLinear(loader, qkv_rows(spec, hidden_size, names, shard), spec.qkv_bias);
}

std::optional<HeadNorm> head_norm(WeightLoader& loader, const std::string& name, const AttentionSpec& spec,
                                  std::size_t heads, Range own, bool tensor_per_head) {
  if (!spec.query_key_norm || spec.norms_whole_projections) return std::nullopt;
  if (!spec.query_key_norm_per_head) return HeadNorm(loader, name, spec.head_dim, *spec.query_key_norm);
  return HeadNorm(loader, name, {heads, spec.head_dim}, *spec.query_key_norm, own, tensor_per_head);
}

std::optional<HeadNorm> key_norm(WeightLoader& loader, const AttentionSpec& spec, const BlockNames& names,
                                 const HeadShard& shard) {
  if (spec.shared_kv_layer) return std::nullopt;
  return head_norm(loader, names.k_norm, spec, spec.num_key_value_heads, shard.kv_heads,
                   names.norm_tensor_per_head);
}

std::optional<HeadNorm> value_norm(WeightLoader& loader, const AttentionSpec& spec) {
  if (!spec.value_norm || spec.shared_kv_layer) return std::nullopt;
  return HeadNorm(loader, {}, spec.head_dim, *spec.value_norm);  // without gain, so without a name
}

std::optional<Favor> random_features(const AttentionSpec& spec, const HeadShard& shard) {
  if (spec.favor_features == 0) return std::nullopt;
  return Favor(shard.kv_heads, spec.favor_features, spec.head_dim);
}

// The batch's rows, in the order in which a dilated layer stores each sequence's tokens.
std::vector<std::size_t> rows_by_residue(std::span<const kernels::AttentionSpan> spans,
                                         std::size_t dilation) {
  std::vector<std::size_t> rows;
  for (const kernels::AttentionSpan& span : spans) {
    for (std::size_t residue = 0; residue < std::min(dilation, span.tokens); ++residue) {
      for (std::size_t token = residue; token < span.tokens; token += dilation)
        rows.push_back(span.first_token + token);
    }
  }
  return rows;
}

TensorView<float> gathered(TensorView<const float> x, std::span<const std::size_t> rows,
                           const StepContext& step) {
  const TensorView<float> out = step.workspace.take(x.rows(), x.columns());
  kernels::gather_rows(x, rows, out);
  return out;
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
      own_kv_size_(spec.shared_kv_layer ? 0 : kv_size_),
      value_dim_(spec.value_dim()),
      values_are_keys_(spec.values_are_keys),
      rope_(spec.rope),
      interleaved_rope_(spec.interleaved_rope),
      norms_after_rope_(spec.norms_after_rope),
      pattern_(spec.pattern),
      scale_(spec.scale),
      softcap_(spec.softcap),
      query_scaling_(spec.query_scaling),
      gates_(!spec.output_gate    ? 0
             : spec.gate_per_head ? shard.local_heads()
                                  : query_size_),
      softplus_gate_(spec.softplus_gate),
      output_scale_(spec.output_scale),
      qkv_proj_(loader, qkv_rows(spec, hidden_size, names, shard), spec.qkv_bias),
      query_norm_(head_norm(loader, names.q_norm, spec, spec.num_attention_heads, shard.query_heads,
                            names.norm_tensor_per_head)),
      key_norm_(key_norm(loader, spec, names, shard)),
      value_norm_(value_norm(loader, spec)),
      clip_qkv_(spec.clip_qkv),
      sinks_(spec.sinks ? loader.part_of_vector(names.sinks, spec.num_attention_heads, shard.query_heads,
                                                "num_attention_heads")
                        : std::vector<float>()),
      relative_bias_(spec.relative_bias),
      favor_(random_features(spec, shard)),
      global_qkv_proj_(load_global_qkv(loader, spec, hidden_size, names, shard)),
      o_proj_(loader,
              {names.o_proj,
               {hidden_size, spec.num_attention_heads * spec.value_dim()},
               "hidden_size",
               "num_attention_heads x v_head_dim",
               names.transposed},
              features_of(shard.query_heads, spec.value_dim()), spec.o_bias,
              loader.leaf_of_heads(spec.value_dim())) {
  if (spec.query_key_norm && spec.norms_whole_projections)
    projection_norm_.emplace(loader, spec, names, shard);
  for (std::size_t head = 0; head < shard.local_heads(); ++head)
    kv_of_head_.push_back(shard.local_kv_of(head));
  if (spec.block_indexer)
    indexer_.emplace<BlockIndexer>(loader, spec, hidden_size, names.block_indexer, shard);
  if (spec.pooled_indexer) indexer_.emplace<PooledIndexer>(loader, spec, hidden_size, names.pooled_indexer);
  if (!spec.alibi_slopes.empty()) {
    for (std::size_t head = shard.query_heads.begin; head < shard.query_heads.end; ++head)
      alibi_slopes_.push_back(spec.alibi_slopes[head]);
  }
}

TensorView<float> Attention::values_of(TensorView<float> qkv, TensorView<const float> key,
                                       const StepContext& step) const {
  TensorView<float> value;
  if (values_are_keys_) {
    value = step.workspace.take(key.rows(), key.columns());
    kernels::copy_rows(key, value);
  } else {
    value = qkv.columns_from(query_size_ + own_kv_size_, own_kv_size_ / head_dim_ * value_dim_);
  }
  if (value_norm_) value_norm_->apply_in_place(value);
  return value;
}

void Attention::normalize(TensorView<float> query, TensorView<float> key, const StepContext& step) const {
  if (projection_norm_) (*projection_norm_)(query, key, step);
  if (query_norm_) query_norm_->apply_in_place(query);
  if (key_norm_) key_norm_->apply_in_place(key);
}

PartialSum Attention::operator()(TensorView<const float> x, const StepContext& step,
                                 const kernels::PagedCache& cache) const {
  const TensorView<float> qkv = qkv_proj_(x, step);                  // [tokens, query + 2 kv (+ gate)]
  const TensorView<float> query = qkv.columns_from(0, query_size_);  // [tokens, query_size]
  const TensorView<float> key = qkv.columns_from(query_size_, own_kv_size_);  // [tokens, own_kv_size]
  const TensorView<float> value = values_of(qkv, key, step);                  // [tokens, own_kv_size]
  if (!norms_after_rope_) normalize(query, key, step);
  if (clip_qkv_) kernels::clip(*clip_qkv_, qkv);
  if (rope_) {
    const RopeAngles& angles = step.angles(*rope_);
    const auto rotate = interleaved_rope_ ? kernels::rotate_pairs : kernels::rotate;
    rotate(query, head_dim_, angles.cosine, angles.sine);
    rotate(key, head_dim_, angles.cosine, angles.sine);
  }
  if (norms_after_rope_) normalize(query, key, step);
  scale_queries(query_scaling_, step.batch.positions, query);
  const bool chooses = indexer_.index() != 0;
  const TensorView<float> attended = favor_    ? (*favor_)(query, key, value, kv_of_head_, scale_, step)
                                     : chooses ? attend_to_blocks(x, query, key, value, step, cache)
                                     : pattern_.dilation == 1
                                         ? attend_to_cache(query, key, value, step, cache)
                                         : attend_by_residues(query, key, value, step, cache);
  if (global_qkv_proj_ && !step.batch.is_global.empty()) attend_globally(x, step, cache, attended);
  if (gates_ != 0) apply_gates(qkv.columns_from(qkv.columns() - gates_, gates_), attended);
  if (output_scale_ != 1.0F) kernels::scale(output_scale_, attended);
  return o_proj_(attended, step);
}

void Attention::remember(TensorView<const float> x, const StepContext& step,
                         const kernels::PagedCache& cache) const {
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> qkv = qkv_proj_(x, step);
  const TensorView<float> key = qkv.columns_from(query_size_, own_kv_size_);  // [tokens, own_kv_size]
  const TensorView<float> value = values_of(qkv, key, step);                  // [tokens, own_kv_size]
  if (key_norm_) key_norm_->apply_in_place(key);
  if (rope_) {
    const RopeAngles& angles = step.angles(*rope_);
    const auto rotate = interleaved_rope_ ? kernels::rotate_pairs : kernels::rotate;
    rotate(key, head_dim_, angles.cosine, angles.sine);
  }
  kernels::store_keys_values(key, value, step.spans(), cache);
}

void Attention::apply_gates(TensorView<const float> gates, TensorView<float> attended) const {
  if (gates_ == attended.columns() && !softplus_gate_)
    kernels::multiply_activated(kernels::Activation::sigmoid, gates, attended);
  else
    kernels::multiply_gates(softplus_gate_, gates, attended.columns() / gates_, attended);
}

TensorView<float> Attention::attend_to_cache(TensorView<const float> query, TensorView<const float> key,
                                             TensorView<const float> value, const StepContext& step,
                                             const kernels::PagedCache& cache) const {
  kernels::store_keys_values(key, value, step.spans(), cache);
  const FarKeys far_keys(pattern_, step);
  return attend(query, step, far_keys.spans(), cache, pattern_);
}

TensorView<float> Attention::attend_to_blocks(TensorView<const float> x, TensorView<const float> query,
                                              TensorView<const float> key, TensorView<const float> value,
                                              const StepContext& step,
                                              const kernels::PagedCache& cache) const {
  kernels::store_keys_values(key, value, step.spans(), cache);
  const kernels::AttentionArgs args = arguments(query, step, step.spans(), cache, pattern_);
  std::visit(
      [&](const auto& indexer) {
        if constexpr (requires { indexer.attend(x, args, step); }) indexer.attend(x, args, step);
      },
      indexer_);
  return args.out;
}

TensorView<float> Attention::attend_by_residues(TensorView<const float> query, TensorView<const float> key,
                                                TensorView<const float> value, const StepContext& step,
                                                const kernels::PagedCache& cache) const {
  const std::vector<std::size_t> rows = rows_by_residue(step.spans(), pattern_.dilation);
  const TensorView<float> sorted = attend_to_cache(gathered(query, rows, step), gathered(key, rows, step),
                                                   gathered(value, rows, step), step, cache);
  const TensorView<float> attended = step.workspace.take(sorted.rows(), sorted.columns());
  kernels::scatter_rows(sorted, rows, attended);
  return attended;
}

kernels::AttentionArgs Attention::arguments(TensorView<const float> query, const StepContext& step,
                                            std::span<const kernels::AttentionSpan> spans,
                                            const kernels::PagedCache& cache,
                                            const AttentionPattern& pattern) const {
  std::size_t max_blocks = 0;
  for (const auto& span : spans) max_blocks = std::max(max_blocks, span.block_table.size());
  const std::size_t scratch = kernels::attention_scratch(kv_of_head_, cache.layout, max_blocks);
  const TensorView<float> attended = step.workspace.take(query.rows(), query_size_ / head_dim_ * value_dim_);
  const bool biased = relative_bias_ && step.relative_bias != nullptr;
  return {.query = query,
          .cache = cache,
          .spans = spans,
          .kv_of_head = kv_of_head_,
          .pattern = pattern,
          .scale = scale_,
          .softcap = softcap_,
          .alibi_slopes = alibi_slopes_,
          .sinks = sinks_,
          .relative_bias = biased ? step.relative_bias->by_distance() : std::span<const float>(),
          .bias_reach = biased ? step.relative_bias->reach() : 0,
          .scratch = step.workspace.take_per_thread(scratch),
          .out = attended};
}

TensorView<float> Attention::attend(TensorView<const float> query, const StepContext& step,
                                    std::span<const kernels::AttentionSpan> spans,
                                    const kernels::PagedCache& cache, const AttentionPattern& pattern) const {
  const kernels::AttentionArgs args = arguments(query, step, spans, cache, pattern);
  tp::attend(args, step);
  return args.out;
}

// Overwrites the cached keys and values, which this layer no longer needs, with keys and values from the
// global projections.
void Attention::attend_globally(TensorView<const float> x, const StepContext& step,
                                const kernels::PagedCache& cache, TensorView<float> attended) const {
  std::vector<std::size_t> rows;
  std::vector<kernels::AttentionSpan> spans;
  for (kernels::AttentionSpan span : step.spans()) {
    const std::size_t first = rows.size();
    for (std::size_t token = span.first_token; token < span.first_token + span.tokens; ++token) {
      if (step.batch.is_global[token] != 0) rows.push_back(token);
    }
    span.context = span.keys();
    span.first_token = first;
    span.tokens = rows.size() - first;
    if (span.tokens > 0) spans.push_back(span);
  }
  const TensorView<float> qkv = (*global_qkv_proj_)(x, step);  // [tokens, query + 2 kv]
  kernels::store_keys_values(qkv.columns_from(query_size_, kv_size_),
                             qkv.columns_from(query_size_ + kv_size_, kv_size_), step.spans(), cache);
  const TensorView<float> query = step.workspace.take(rows.size(), query_size_);
  kernels::gather_rows(qkv.columns_from(0, query_size_), rows, query);
  const TensorView<const float> seen = attend(query, step, spans, cache, {.causal = false});
  kernels::scatter_rows(seen, rows, attended);
}

kernels::KvLayout Attention::kv_layout(KvType type, std::size_t block_size) const {
  if (favor_) return {};
  kernels::KvLayout layout{.type = type,
                           .kv_heads = kv_size_ / head_dim_,
                           .block_size = block_size,
                           .key_dim = head_dim_,
                           .value_dim = value_dim_};
  if (const auto* const of_blocks = std::get_if<BlockIndexer>(&indexer_))
    layout.index_dim = of_blocks->head_dim();
  if (const auto* const of_pools = std::get_if<PooledIndexer>(&indexer_)) {
    layout.index_dim = of_pools->head_dim();
    layout.index_pool = of_pools->pools().size();
  }
  return layout;
}

std::size_t Attention::state_floats() const {
  if (const auto* const of_pools = std::get_if<PooledIndexer>(&indexer_))
    return of_pools->pools().state_floats();
  return favor_ ? favor_->state_floats() : 0;
}

std::vector<StatePart> Attention::state_parts() const {
  if (const auto* const of_pools = std::get_if<PooledIndexer>(&indexer_))
    return of_pools->pools().state_parts();
  return favor_ ? favor_->state_parts() : std::vector<StatePart>();
}

}  // namespace tp
