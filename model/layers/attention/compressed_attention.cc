#include "model/layers/attention/compressed_attention.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/rope.h"
#include "model/kernels/rounding.h"
#include "model/kernels/streams.h"
#include "model/layers/attention/chosen_attention.h"
#include "model/layers/attention/host_attention.h"
#include "model/layers/attention/index_choice.h"
#include "model/layers/attention/indexer.h"
#include "model/layers/attention/pooled_window.h"

#include <algorithm>
#include <cmath>

namespace tp {
namespace {

std::vector<OwnedRows> down_rows(const CompressedAttentionSpec& spec, std::size_t hidden_size,
                                 const CompressedAttentionNames& names) {
  std::vector<OwnedRows> rows = {
      {{names.q_a_proj, {spec.q_lora_rank, hidden_size}, "q_lora_rank", "hidden_size"},
       {0, spec.q_lora_rank}},
      {{names.kv_proj, {spec.head_dim, hidden_size}, "head_dim", "hidden_size"}, {0, spec.head_dim}}};
  if (spec.makes_pools()) {
    for (const OwnedRows& more : LatentPools::down_rows(spec, hidden_size, names)) rows.push_back(more);
  }
  if (!spec.chooses()) return rows;
  const std::size_t heads = spec.indexer->num_heads;
  rows.push_back(
      {{names.index_weights_proj, {heads, hidden_size}, "index_n_heads", "hidden_size"}, {0, heads}});
  return rows;
}

std::vector<OwnedRows> query_rows(const CompressedAttentionSpec& spec, const std::string& name, Range heads) {
  return {{{name,
            {spec.num_attention_heads * spec.head_dim, spec.q_lora_rank},
            "num_attention_heads x head_dim",
            "q_lora_rank"},
           {heads.begin * spec.head_dim, heads.end * spec.head_dim}}};
}

NormSpec norm_of(const CompressedAttentionSpec& spec, bool gain) {
  return {.eps = spec.norm_eps, .gain = gain};
}

std::optional<Norm> query_norm(const CompressedAttentionSpec& spec) {
  if (!spec.query_head_norm) return std::nullopt;
  return Norm(norm_of(spec, false), std::vector<float>(spec.head_dim, 1.0F), {});
}

// Rows of earlier tokens' latents in the state.
RecentRows window_rows(const CompressedAttentionSpec& spec) {
  return {spec.window - 1, spec.window - 1, spec.head_dim, 0};
}

}  // namespace

CompressedAttention::CompressedAttention(WeightLoader& loader, const CompressedAttentionSpec& spec,
                                         std::size_t hidden_size, const BlockNames& names)
    : CompressedAttention(
          loader, spec, hidden_size, names.compressed_attention,
          shard_heads(spec.num_attention_heads, spec.num_attention_heads, loader.tp()).query_heads) {}

CompressedAttention::CompressedAttention(WeightLoader& loader, const CompressedAttentionSpec& spec,
                                         std::size_t hidden_size, const CompressedAttentionNames& names,
                                         Range heads)
    : spec_(spec),
      heads_(heads),
      latent_of_head_(heads.size(), 0),
      down_proj_(loader, down_rows(spec, hidden_size, names), false),
      q_a_norm_(loader, names.q_a_norm, spec.q_lora_rank, norm_of(spec, true), "q_lora_rank"),
      q_b_proj_(loader, query_rows(spec, names.q_b_proj, heads), false),
      q_norm_(query_norm(spec)),
      kv_norm_(loader, names.kv_norm, spec.head_dim, norm_of(spec, true), "head_dim"),
      sinks_(loader.part_of_vector(names.sinks, spec.num_attention_heads, heads, "num_attention_heads")),
      output_(loader, spec, hidden_size, names, heads) {
  if (spec.pool == 0) return;
  window_ = window_rows(spec);
  if (spec.makes_pools()) pools_.emplace(loader, spec, names, window_->floats());
  if (spec.chooses())
    index_q_proj_.emplace(
        Indexer::load_queries(loader, *spec.indexer, spec.q_lora_rank, names.index_q_b_proj));
}

void CompressedAttention::rotate(TensorView<float> x, std::size_t size, TensorView<const float> sine,
                                 const StepContext& step) const {
  const RopeAngles& angles = step.angles(*spec_.rope);
  const std::size_t rotated = spec_.rope->rotary_dim;
  for (std::size_t end = size; end <= x.columns(); end += size)
    kernels::rotate_pairs(x.columns_from(end - rotated, rotated), rotated, angles.cosine, sine);
}

PartialSum CompressedAttention::operator()(TensorView<const float> x, const StepContext& step,
                                           const kernels::PagedCache& cache) const {
  const TensorView<float> out = step.workspace.take(x.rows(), heads_.size() * spec_.head_dim);
  {
    const Workspace::Frame frame(step.workspace);
    const RopeAngles& angles = step.angles(*spec_.rope);
    const TensorView<float> down = down_proj_(x, step);
    const TensorView<float> query_latent = q_a_norm_(down.columns_from(0, spec_.q_lora_rank), step.workspace);
    const TensorView<float> query = q_b_proj_(query_latent, step);
    if (q_norm_) q_norm_->apply_in_place(query);
    rotate(query, spec_.head_dim, angles.sine, step);
    const TensorView<float> latent =
        kv_norm_(down.columns_from(spec_.q_lora_rank, spec_.head_dim), step.workspace);
    rotate(latent, spec_.head_dim, angles.sine, step);
    if (spec_.rounds) kernels::round_blocks_to_fp8(spec_.head_dim, latent);
    if (window_) {
      const std::size_t before = spec_.q_lora_rank + spec_.head_dim;
      const std::size_t of_pools = pools_ ? LatentPools::down_size(spec_) : 0;
      if (pools_) pools_->remember(down.columns_from(before, of_pools), step, cache);
      const TensorView<float> weight =
          down.columns_from(before + of_pools, down.columns() - before - of_pools);
      if (!choose(query_latent, weight, step, cache) && pools_) wait_for_host(step);
      attend_to_pools(query, latent, step, cache, out);
    } else {
      attend_to_window(query, latent, step, cache, out);
    }
    const TensorView<float> back = step.workspace.take(angles.sine.rows(), angles.sine.columns());
    kernels::copy_rows(angles.sine, back);
    kernels::scale(-1.0F, back);
    rotate(out, spec_.head_dim, back, step);
  }
  return output_(out, step);
}

kernels::AttentionArgs CompressedAttention::args_of(TensorView<const float> query,
                                                    const kernels::PagedCache& cache, std::size_t max_blocks,
                                                    const StepContext& step, TensorView<float> out) const {
  return {.query = query,
          .cache = cache,
          .spans = {},
          .kv_of_head = latent_of_head_,
          .pattern = {},
          .scale = spec_.scale,
          .sinks = sinks_,
          .scratch = step.workspace.take_per_thread(
              kernels::attention_scratch(latent_of_head_, cache.layout, max_blocks)),
          .out = out};
}

void CompressedAttention::attend_to_window(TensorView<const float> query, TensorView<const float> latent,
                                           const StepContext& step, const kernels::PagedCache& cache,
                                           TensorView<float> out) const {
  kernels::store_keys_values(latent.columns_from(latent.columns(), 0), latent, step.spans(), cache);
  std::size_t max_blocks = 0;
  for (const auto& span : step.spans()) max_blocks = std::max(max_blocks, span.block_table.size());
  kernels::AttentionArgs args = args_of(query, cache, max_blocks, step, out);
  args.spans = step.spans();
  args.pattern.window = spec_.window;
  tp::attend(args, step);
}

bool CompressedAttention::choose(TensorView<const float> query_latent, TensorView<float> weight,
                                 const StepContext& step, const kernels::PagedCache& cache) const {
  if (!index_q_proj_ || !may_choose(*spec_.indexer, step, cache)) return false;
  const IndexerSpec& indexer = *spec_.indexer;
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> query = (*index_q_proj_)(query_latent, step);
  rotate(query, indexer.head_dim, step.angles(*spec_.rope).sine, step);
  if (spec_.rounds) kernels::round_blocks_to_fp4(indexer.head_dim, query);
  // The usual factor of query . key is part of the weights, because a positive factor passes max(0, x).
  kernels::scale(1.0F / std::sqrt(static_cast<float>(indexer.num_heads * indexer.head_dim)), weight);
  return choose_by_index({query, weight}, indexer, step, cache);
}

void CompressedAttention::attend_to_pools(TensorView<const float> query, TensorView<const float> latent,
                                          const StepContext& step, const kernels::PagedCache& cache,
                                          TensorView<float> out) const {
  const PooledWindow reader(spec_, *window_, latent, step, cache);
  const kernels::AttentionArgs args = args_of(query, reader.copies(), reader.blocks(), step, out);
  reader.attend(args);
  window_->keep(latent, step,
                [&](std::size_t tokens) { return tokens - std::min(tokens, spec_.window - 1); });
}

kernels::KvLayout CompressedAttention::kv_layout(KvType type, std::size_t block_size) const {
  const bool has_pools = spec_.pool != 0;
  return {.type = type,
          .kv_heads = 1,
          .block_size = block_size,
          .key_dim = spec_.head_dim,
          .value_dim = spec_.head_dim,
          .latent = true,
          .index_dim = spec_.indexer ? spec_.indexer->head_dim : 0,
          .index_pool = has_pools ? spec_.pool : 1,
          .pools_latents = has_pools};
}

std::size_t CompressedAttention::state_floats() const {
  return (window_ ? window_->floats() : 0) + (pools_ ? pools_->state_floats() : 0);
}

std::vector<StatePart> CompressedAttention::state_parts() const {
  if (!window_) return {};
  std::vector<StatePart::Rows> rows = {window_->state_rows(0)};
  if (pools_) {
    for (const StatePart::Rows& more : pools_->state_rows()) rows.push_back(more);
  }
  return {{0, rows}};
}

}  // namespace tp
