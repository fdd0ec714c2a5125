#include "model/layers/attention/cross_attention.h"

#include "model/kernels/attention.h"
#include "model/weights/stored_projection.h"

#include <algorithm>
#include <string>

namespace tp {
namespace {

OwnedRows owned_heads_of(const std::string& name, std::size_t heads, Range own, std::size_t head_dim,
                         std::size_t hidden_size) {
  return {{name, {heads * head_dim, hidden_size}, "num_attention_heads x head_dim", "hidden_size"},
          {own.begin * head_dim, own.end * head_dim}};
}

std::vector<OwnedRows> query_rows(const AttentionSpec& spec, std::size_t hidden_size,
                                  const CrossAttentionNames& names, const HeadShard& shard) {
  return {
      owned_heads_of(names.q_proj, spec.num_attention_heads, shard.query_heads, spec.head_dim, hidden_size)};
}

std::vector<OwnedRows> key_value_rows(const AttentionSpec& spec, std::size_t hidden_size,
                                      const CrossAttentionNames& names, const HeadShard& shard) {
  const auto rows_of = [&](const std::string& name) {
    return owned_heads_of(name, spec.num_key_value_heads, shard.kv_heads, spec.head_dim, hidden_size);
  };
  return {rows_of(names.k_proj), rows_of(names.v_proj)};
}

}  // namespace

CrossAttention::CrossAttention(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
                               const CrossAttentionNames& names)
    : CrossAttention(loader, spec, hidden_size, names,
                     shard_heads(spec.num_attention_heads, spec.num_key_value_heads, loader.tp())) {}

CrossAttention::CrossAttention(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
                               const CrossAttentionNames& names, const HeadShard& shard)
    : query_size_(shard.local_heads() * spec.head_dim),
      kv_size_(shard.local_kv_heads() * spec.head_dim),
      scale_(spec.scale),
      q_proj_(loader, query_rows(spec, hidden_size, names, shard), spec.qkv_bias),
      kv_proj_(loader, key_value_rows(spec, hidden_size, names, shard), spec.qkv_bias),
      o_proj_(loader,
              {names.o_proj,
               {hidden_size, spec.num_attention_heads * spec.head_dim},
               "hidden_size",
               "num_attention_heads x head_dim"},
              {shard.query_heads.begin * spec.head_dim, shard.query_heads.end * spec.head_dim}, spec.o_bias,
              loader.leaf_of_heads(spec.head_dim)) {
  for (std::size_t head = 0; head < shard.local_heads(); ++head)
    kv_of_head_.push_back(shard.local_kv_of(head));
}

void CrossAttention::remember(TensorView<const float> states, const StepContext& step,
                              const kernels::PagedCache& cache) const {
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> key_value = kv_proj_(states, step);  // [tokens, 2 kv_size]
  kernels::store_keys_values(key_value.columns_from(0, kv_size_), key_value.columns_from(kv_size_, kv_size_),
                             step.spans(), cache);
}

PartialSum CrossAttention::operator()(TensorView<const float> x, const StepContext& step,
                                      const kernels::PagedCache& cache) const {
  const TensorView<float> query = q_proj_(x, step);  // [tokens, query_size]
  std::size_t max_blocks = 0;
  for (const auto& span : step.batch.contexts) max_blocks = std::max(max_blocks, span.block_table.size());
  const std::size_t scratch = kernels::attention_scratch(kv_of_head_, cache.layout, max_blocks);
  const TensorView<float> attended = step.workspace.take(query.rows(), query_size_);
  kernels::paged_attention({.query = query,
                            .cache = cache,
                            .spans = step.batch.contexts,
                            .kv_of_head = kv_of_head_,
                            .pattern = {.causal = false},
                            .scale = scale_,
                            .scratch = step.workspace.take_per_thread(scratch),
                            .out = attended});
  return o_proj_(attended, step);
}

}  // namespace tp
