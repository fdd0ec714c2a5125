#include "model/layers/attention/latent_attention.h"

#include "model/kernels/attention.h"
#include "model/kernels/elementwise.h"
#include "model/kernels/rope.h"
#include "model/layers/attention/chosen_attention.h"
#include "model/layers/attention/host_attention.h"
#include "model/layers/attention/query_scaling.h"
#include "tp/internal/threads.h"

#include <algorithm>

namespace tp {
namespace {

NormSpec latent_norm(const LatentAttentionSpec& spec) { return {.eps = spec.latent_norm_eps}; }

bool has_indexer(const LatentAttentionSpec& spec) { return spec.indexer && !spec.indexer->is_shared; }

// Appends a layer's rows for elements [begin, begin + size) of each head.
void append_heads(std::vector<OwnedRows>& parts, const StoredLayer& layer, Range heads, std::size_t head_size,
                  std::size_t begin, std::size_t size) {
  if (size == 0) return;
  for (std::size_t head = heads.begin; head < heads.end; ++head) {
    const std::size_t first = head * head_size + begin;
    parts.push_back({layer, {first, first + size}});
  }
}

// Rows of the query projection: first the unrotated (nope) parts of all heads, then the rotated parts.
std::vector<OwnedRows> query_rows(const LatentAttentionSpec& spec, const std::string& name,
                                  std::size_t in_features, Range heads) {
  const std::size_t head_size = spec.qk_nope_head_dim + spec.qk_rope_head_dim;
  const StoredLayer layer{name,
                          {spec.num_attention_heads * head_size, in_features},
                          "num_attention_heads x (qk_nope_head_dim + qk_rope_head_dim)",
                          "the query's input"};
  std::vector<OwnedRows> parts;
  append_heads(parts, layer, heads, head_size, 0, spec.qk_nope_head_dim);
  append_heads(parts, layer, heads, head_size, spec.qk_nope_head_dim, spec.qk_rope_head_dim);
  return parts;
}

std::vector<OwnedRows> down_rows(const LatentAttentionSpec& spec, std::size_t hidden_size,
                                 const LatentAttentionNames& names, Range heads) {
  std::vector<OwnedRows> parts;
  if (spec.q_lora_rank) {
    parts.push_back({{names.q_a_proj, {*spec.q_lora_rank, hidden_size}, "q_lora_rank", "hidden_size"},
                     {0, *spec.q_lora_rank}});
  } else {
    parts = query_rows(spec, names.q_proj, hidden_size, heads);
  }
  const std::size_t latent = spec.kv_lora_rank + spec.qk_rope_head_dim;
  parts.push_back({{names.kv_a_proj, {latent, hidden_size}, "kv_lora_rank + qk_rope_head_dim", "hidden_size"},
                   {0, latent}});
  if (has_indexer(spec)) {
    const std::vector<OwnedRows> more = Indexer::down_rows(*spec.indexer, hidden_size, names.indexer);
    parts.insert(parts.end(), more.begin(), more.end());
  }
  if (spec.head_gate)
    parts.push_back(
        {{names.gate, {spec.num_attention_heads, hidden_size}, "num_attention_heads", "hidden_size"}, heads});
  const std::size_t size = spec.v_head_dim;
  if (spec.element_gate)
    parts.push_back({{names.gate,
                      {spec.num_attention_heads * size, hidden_size},
                      "num_attention_heads x v_head_dim",
                      "hidden_size"},
                     {heads.begin * size, heads.end * size}});
  return parts;
}

StoredLayer kv_b_layer(const LatentAttentionSpec& spec, const LatentAttentionNames& names) {
  return {names.kv_b_proj,
          {spec.num_attention_heads * (spec.qk_nope_head_dim + spec.v_head_dim), spec.kv_lora_rank},
          "num_attention_heads x (qk_nope_head_dim + v_head_dim)",
          "kv_lora_rank"};
}

// The rows of a part of each head in kv_b_proj.
std::vector<Range> rows_of_heads(const LatentAttentionSpec& spec, Range heads, std::size_t begin,
                                 std::size_t size) {
  std::vector<Range> rows;
  for (std::size_t head = heads.begin; head < heads.end; ++head) {
    const std::size_t first = head * (spec.qk_nope_head_dim + spec.v_head_dim) + begin;
    rows.push_back({first, first + size});
  }
  return rows;
}

HeadwiseLinear load_absorb_proj(WeightLoader& loader, const LatentAttentionSpec& spec,
                                const LatentAttentionNames& names, Range heads) {
  const StoredLayer stored = kv_b_layer(spec, names);
  const StoredLayer transpose{
      stored.name, {stored.shape.columns, stored.shape.rows}, stored.in_reason, stored.out_reason, true};
  const std::vector<Range> parts = rows_of_heads(spec, heads, 0, spec.qk_nope_head_dim);
  std::vector<LocalWeight> weights;
  for (const Range& rows : parts) weights.push_back(loader.columns_of_weight(transpose, rows));
  return HeadwiseLinear(std::move(weights), HeadwiseAdapters(loader, stored, parts, true));
}

HeadwiseLinear load_value_proj(WeightLoader& loader, const LatentAttentionSpec& spec,
                               const LatentAttentionNames& names, Range heads) {
  const StoredLayer stored = kv_b_layer(spec, names);
  const std::vector<Range> parts = rows_of_heads(spec, heads, spec.qk_nope_head_dim, spec.v_head_dim);
  std::vector<LocalWeight> weights;
  for (const Range& rows : parts) weights.push_back(loader.rows_of_weight({stored, rows}));
  return HeadwiseLinear(std::move(weights), HeadwiseAdapters(loader, stored, parts, false));
}

// Copies each head's rotated part to the end of the head's query. rotated: [tokens, heads * rope_dim], query:
// [tokens, heads * head_size].
void place_rotated(TensorView<const float> rotated, std::size_t rope_dim, TensorView<float> query) {
  if (query.empty() || rope_dim == 0) return;
  const std::size_t heads = rotated.columns() / rope_dim;
  const std::size_t head_size = query.columns() / heads;
  for_thread_parts(rotated.rows(), rotated.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) {
      for (std::size_t head = 0; head < heads; ++head) {
        std::copy_n(rotated.row(token) + head * rope_dim, rope_dim,
                    query.row(token) + (head + 1) * head_size - rope_dim);
      }
    }
  });
}

}  // namespace

LatentAttentionSizes::LatentAttentionSizes(const LatentAttentionSpec& spec, TpRank tp)
    : heads(shard_heads(spec.num_attention_heads, spec.num_attention_heads, tp).query_heads),
      query_nope(heads.size() * spec.qk_nope_head_dim),
      query_rope(heads.size() * spec.qk_rope_head_dim),
      query_in(spec.q_lora_rank.value_or(query_nope + query_rope)),
      latent(spec.kv_lora_rank + spec.qk_rope_head_dim),
      value(heads.size() * spec.v_head_dim) {}

LatentAttention::LatentAttention(WeightLoader& loader, const LatentAttentionSpec& spec,
                                 std::size_t hidden_size, const BlockNames& names)
    : LatentAttention(loader, spec, hidden_size, names.latent_attention,
                      LatentAttentionSizes(spec, loader.tp())) {}

LatentAttention::LatentAttention(WeightLoader& loader, const LatentAttentionSpec& spec,
                                 std::size_t hidden_size, const LatentAttentionNames& names,
                                 const LatentAttentionSizes& sizes)
    : spec_(spec),
      sizes_(sizes),
      latent_of_head_(sizes.heads.size(), 0),
      down_proj_(loader, down_rows(spec, hidden_size, names, sizes.heads), false),
      kv_a_norm_(loader, names.kv_a_norm, spec.kv_lora_rank, latent_norm(spec), "kv_lora_rank"),
      absorb_proj_(load_absorb_proj(loader, spec, names, sizes.heads)),
      sinks_(spec.sinks ? loader.part_of_vector(names.sinks, spec.num_attention_heads, sizes.heads,
                                                "num_attention_heads")
                        : std::vector<float>()),
      value_proj_(load_value_proj(loader, spec, names, sizes.heads)),
      o_proj_(loader,
              {names.o_proj,
               {hidden_size, spec.num_attention_heads * spec.v_head_dim},
               "hidden_size",
               "num_attention_heads x v_head_dim"},
              {sizes.heads.begin * spec.v_head_dim, sizes.heads.end * spec.v_head_dim}, false,
              loader.leaf_of_heads(spec.v_head_dim)) {
  if (has_indexer(spec)) indexer_.emplace(loader, *spec.indexer, spec.rope, *spec.q_lora_rank, names.indexer);
  if (!spec.q_lora_rank) return;
  q_proj_ = QueryExpansion{
      Norm(loader, names.q_a_norm, *spec.q_lora_rank, latent_norm(spec), "q_lora_rank"),
      ColumnParallelLinear(loader, query_rows(spec, names.q_b_proj, *spec.q_lora_rank, sizes.heads), false)};
}

PartialSum LatentAttention::operator()(TensorView<const float> x, const StepContext& step,
                                       const kernels::PagedCache& cache) const {
  const TensorView<float> down = down_proj_(x, step);  // [tokens, query_in + latent + for the indexer]
  const TensorView<float> query_latent =
      q_proj_ ? q_proj_->norm(down.columns_from(0, sizes_.query_in), step.workspace) : TensorView<float>();
  const TensorView<float> query =
      q_proj_ ? q_proj_->b_proj(query_latent, step) : down.columns_from(0, sizes_.query_in);
  const TensorView<float> query_nope = query.columns_from(0, sizes_.query_nope);
  const TensorView<float> query_rope = query.columns_from(sizes_.query_nope, sizes_.query_rope);
  const TensorView<float> latent =
      kv_a_norm_(down.columns_from(sizes_.query_in, spec_.kv_lora_rank), step.workspace);
  const TensorView<float> rope_key =
      down.columns_from(sizes_.query_in + spec_.kv_lora_rank, spec_.qk_rope_head_dim);
  if (spec_.rope) {
    const RopeAngles& angles = step.angles(*spec_.rope);
    const auto rotate = spec_.interleaved_rope ? kernels::rotate_pairs : kernels::rotate;
    rotate(query_rope, spec_.qk_rope_head_dim, angles.cosine, angles.sine);
    rotate(rope_key, spec_.qk_rope_head_dim, angles.cosine, angles.sine);
  }
  kernels::store_keys_values(rope_key, latent, step.spans(), cache);
  if (indexer_) {
    const TensorView<float> for_indexer =
        down.columns_from(sizes_.query_in + sizes_.latent, Indexer::down_size(*spec_.indexer));
    indexer_->remember(for_indexer, step, cache);
    indexer_->choose(query_latent, for_indexer, step, cache);
  }

  // For each head: the absorbed query, then the rotated part, in the same order as in the cache. [tokens,
  // heads * latent]
  const TensorView<float> absorbed = step.workspace.take(x.rows(), sizes_.heads.size() * sizes_.latent);
  absorb_proj_(query_nope, absorbed, step);
  place_rotated(query_rope, spec_.qk_rope_head_dim, absorbed);
  scale_queries(spec_.query_scaling, step.batch.positions, absorbed);
  const TensorView<float> attended = step.workspace.take(x.rows(), sizes_.heads.size() * spec_.kv_lora_rank);
  attend(absorbed, step, cache, attended);

  const TensorView<float> values = step.workspace.take(x.rows(), sizes_.value);
  value_proj_(attended, values, step);
  if (spec_.head_gate) {
    const std::size_t heads = sizes_.heads.size();
    kernels::multiply_gates(false, down.columns_from(down.columns() - heads, heads), spec_.v_head_dim,
                            values);
  }
  if (spec_.element_gate)
    kernels::multiply_activated(kernels::Activation::sigmoid,
                                down.columns_from(down.columns() - sizes_.value, sizes_.value), values);
  return o_proj_(values, step);
}

void LatentAttention::attend(TensorView<const float> query, const StepContext& step,
                             const kernels::PagedCache& cache, TensorView<float> out) const {
  std::size_t max_blocks = 0;
  for (const auto& span : step.spans()) max_blocks = std::max(max_blocks, span.block_table.size());
  const std::size_t scratch = kernels::attention_scratch(latent_of_head_, cache.layout, max_blocks);
  const kernels::AttentionArgs args{.query = query,
                                    .cache = cache,
                                    .spans = step.spans(),
                                    .kv_of_head = latent_of_head_,
                                    .pattern = {.causal = spec_.causal},
                                    .scale = spec_.scale,
                                    .sinks = sinks_,
                                    .scratch = step.workspace.take_per_thread(scratch),
                                    .out = out};
  if (spec_.indexer)
    attend_to_chosen(args, *spec_.indexer, step);
  else
    tp::attend(args, step);
}

kernels::KvLayout LatentAttention::kv_layout(KvType type, std::size_t block_size) const {
  return {.type = type,
          .kv_heads = 1,
          .block_size = block_size,
          .key_dim = sizes_.latent,
          .value_dim = spec_.kv_lora_rank,
          .latent = true,
          .index_dim = has_indexer(spec_) ? spec_.indexer->head_dim : 0,
          .index_pool = has_indexer(spec_) ? spec_.indexer->pool : 1};
}

std::size_t LatentAttention::state_floats() const {
  return open_pools() != nullptr ? open_pools()->state_floats() : 0;
}

std::vector<StatePart> LatentAttention::state_parts() const {
  return open_pools() != nullptr ? open_pools()->state_parts() : std::vector<StatePart>();
}

}  // namespace tp
