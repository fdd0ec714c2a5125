#include "model/layers/attention/indexer.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/index_keys.h"
#include "model/kernels/rope.h"
#include "model/layers/attention/index_choice.h"
#include "tp/internal/threads.h"

#include <cassert>
#include <cmath>
#include <vector>

namespace tp {
namespace {

NormSpec key_norm(const IndexerSpec& spec) { return {.kind = NormSpec::Kind::layer, .eps = spec.norm_eps}; }

}  // namespace

Indexer::Indexer(WeightLoader& loader, const IndexerSpec& spec, const std::optional<RopeSpec>& rope,
                 std::size_t q_lora_rank, const IndexerNames& names)
    : spec_(spec),
      rope_(rope),
      k_norm_(loader, names.k_norm, spec.head_dim, key_norm(spec), "index_head_dim"),
      q_b_proj_(load_queries(loader, spec, q_lora_rank, names.q_b_proj)) {
  if (spec.pool == 1) return;
  assert(!rope);  // GLM-5.3 has no RoPE
  pools_.emplace(spec.pool, raw_size(spec));
  addends_ =
      loader.whole_tensor({names.pool_addends, {spec.pool, spec.head_dim}, "index_kpool", "index_head_dim"});
}

std::vector<OwnedRows> Indexer::down_rows(const IndexerSpec& spec, std::size_t hidden_size,
                                          const IndexerNames& names) {
  std::vector<OwnedRows> rows = {
      {{names.k_proj, {spec.head_dim, hidden_size}, "index_head_dim", "hidden_size"}, {0, spec.head_dim}}};
  if (spec.pool > 1)
    rows.push_back({{.name = names.pool_gate,
                     .shape = {spec.head_dim, hidden_size},
                     .out_reason = "index_head_dim",
                     .in_reason = "hidden_size",
                     .is_tensor = true},
                    {0, spec.head_dim}});
  rows.push_back({{names.weights_proj, {spec.num_heads, hidden_size}, "index_n_heads", "hidden_size"},
                  {0, spec.num_heads}});
  return rows;
}

ColumnParallelLinear Indexer::load_queries(WeightLoader& loader, const IndexerSpec& spec,
                                           std::size_t q_lora_rank, const std::string& name) {
  return whole_layer(
      loader,
      {name, {spec.num_heads * spec.head_dim, q_lora_rank}, "index_n_heads x index_head_dim", "q_lora_rank"});
}

void Indexer::rotate(TensorView<float> x, const StepContext& step) const {
  if (!rope_) return;
  const RopeAngles& angles = step.angles(*rope_);
  const auto rotate = spec_.interleaved_rope ? kernels::rotate_pairs : kernels::rotate;
  if (!spec_.rotates_last) return rotate(x, spec_.head_dim, angles.cosine, angles.sine);
  const std::size_t size = rope_->rotary_dim;
  for (std::size_t end = spec_.head_dim; end <= x.columns(); end += spec_.head_dim)
    rotate(x.columns_from(end - size, size), size, angles.cosine, angles.sine);
}

void Indexer::remember(TensorView<float> down, const StepContext& step,
                       const kernels::PagedCache& cache) const {
  const TensorView<float> key = down.columns_from(0, spec_.head_dim);
  k_norm_.apply_in_place(key);
  if (pools_) return remember_pools(down.columns_from(0, raw_size(spec_)), step, cache);
  rotate(key, step);
  kernels::store_index_keys(key, step.spans(), cache);
}

void Indexer::remember_pools(TensorView<const float> raw, const StepContext& step,
                             const kernels::PagedCache& cache) const {
  const TensorView<const float> addends(addends_.data(), spec_.pool, spec_.head_dim);
  const std::vector<OpenPools::Closed> closed = pools_->closed(raw, step);
  for_thread_parts(
      closed.size(), closed.size() * spec_.pool * spec_.head_dim, [&](std::size_t begin, std::size_t end) {
        std::vector<float> key(spec_.head_dim);
        for (std::size_t i = begin; i < end; ++i) {
          std::vector<kernels::GatedRow> rows;
          for (std::size_t row = 0; row < spec_.pool; ++row)
            rows.push_back({closed[i].rows[row], closed[i].rows[row] + spec_.head_dim, addends.row(row)});
          kernels::pool_by_gates(rows, key);
          kernels::store_index_key(key.data(), closed[i].number, closed[i].span->block_table, cache);
        }
      });
  pools_->keep(raw, step);
}

void Indexer::choose(TensorView<const float> query_latent, TensorView<float> down, const StepContext& step,
                     const kernels::PagedCache& cache) const {
  if (!may_choose(spec_, step, cache)) return;
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> query = q_b_proj_(query_latent, step);
  rotate(query, step);
  // The usual factor of query . key is part of the weights, because a positive factor passes max(0, x).
  const TensorView<float> weight = down.columns_from(raw_size(spec_), spec_.num_heads);
  kernels::scale(1.0F / std::sqrt(static_cast<float>(spec_.num_heads * spec_.head_dim)), weight);
  choose_by_index({query, weight}, spec_, step, cache);
}

}  // namespace tp
