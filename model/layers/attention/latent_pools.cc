#include "model/layers/attention/latent_pools.h"

#include "model/kernels/index_keys.h"
#include "model/kernels/rounding.h"

namespace tp {
namespace {

bool has_index_compressor(const CompressedAttentionSpec& spec) {
  return spec.indexer && !spec.keys_of_latents;
}

std::vector<OwnedRows> key_rows(const CompressedAttentionSpec& spec, const std::string& name) {
  const std::size_t size = spec.indexer->head_dim;
  return {{{name, {size, spec.head_dim}, "index_head_dim", "head_dim"}, {0, size}}};
}

// The row of the token that closes a pool of `size` positions.
std::size_t last_row(const Compressor::Pool& pool, std::size_t size) {
  return pool.span->first_token + (pool.number + 1) * size - 1 - pool.span->start_position;
}

}  // namespace

LatentPools::LatentPools(WeightLoader& loader, const CompressedAttentionSpec& spec,
                         const CompressedAttentionNames& names, std::size_t state_offset)
    : spec_(spec), compressor_(loader, spec, spec.head_dim, names.compressor, state_offset) {
  if (has_index_compressor(spec))
    index_compressor_.emplace(loader, spec, spec.indexer->head_dim, names.index_compressor,
                              state_offset + compressor_.state_floats());
  if (spec.indexer && spec.keys_of_latents)
    keys_of_latents_.emplace(KeysOfLatents{
        ColumnParallelLinear(loader, key_rows(spec, names.index_k_proj), false),
        Norm(loader, names.index_k_norm, spec.indexer->head_dim, {.eps = spec.norm_eps}, "index_head_dim")});
}

std::vector<OwnedRows> LatentPools::down_rows(const CompressedAttentionSpec& spec, std::size_t hidden_size,
                                              const CompressedAttentionNames& names) {
  std::vector<OwnedRows> rows = Compressor::down_rows(spec, spec.head_dim, hidden_size, names.compressor);
  if (!has_index_compressor(spec)) return rows;
  for (const OwnedRows& more :
       Compressor::down_rows(spec, spec.indexer->head_dim, hidden_size, names.index_compressor))
    rows.push_back(more);
  return rows;
}

std::size_t LatentPools::down_size(const CompressedAttentionSpec& spec) {
  return Compressor::down_size(spec, spec.head_dim) +
         (has_index_compressor(spec) ? Compressor::down_size(spec, spec.indexer->head_dim) : 0);
}

void LatentPools::remember(TensorView<const float> raw, const StepContext& step,
                           const kernels::PagedCache& cache) const {
  const Workspace::Frame frame(step.workspace);
  const std::size_t of_latents = Compressor::down_size(spec_, spec_.head_dim);
  const Compressor::Pools made = compressor_.close(raw.columns_from(0, of_latents), step);
  if (keys_of_latents_) remember_keys_of(made, step, cache);
  compressor_.rotate(made, made.vectors, step);
  if (spec_.rounds) kernels::round_blocks_to_scaled_fp4(spec_.head_dim, made.vectors);
  for (std::size_t i = 0; i < made.pools.size(); ++i)
    kernels::store_pool_latent(made.vectors.row(i), made.pools[i].number, made.pools[i].span->block_table,
                               cache);
  if (!index_compressor_) return;
  const Compressor::Pools keys =
      index_compressor_->close(raw.columns_from(of_latents, raw.columns() - of_latents), step);
  index_compressor_->rotate(keys, keys.vectors, step);
  for (std::size_t i = 0; i < keys.pools.size(); ++i)
    kernels::store_index_key(keys.vectors.row(i), keys.pools[i].number, keys.pools[i].span->block_table,
                             cache);
}

void LatentPools::remember_keys_of(const Compressor::Pools& made, const StepContext& step,
                                   const kernels::PagedCache& cache) const {
  if (made.vectors.rows() == 0) return;
  std::vector<std::size_t> rows;
  for (const Compressor::Pool& pool : made.pools) rows.push_back(last_row(pool, spec_.pool));
  const AdapterRows adapters = step.adapters != nullptr ? step.adapters->of(rows) : AdapterRows();
  StepContext of_pools = step;
  if (step.adapters != nullptr) of_pools.adapters = &adapters;
  const TensorView<float> key = keys_of_latents_->proj(made.vectors, of_pools);
  keys_of_latents_->norm.apply_in_place(key);
  compressor_.rotate(made, key, step);
  if (spec_.rounds) kernels::round_blocks_to_fp4(spec_.indexer->head_dim, key);
  for (std::size_t i = 0; i < made.pools.size(); ++i)
    kernels::store_index_key(key.row(i), made.pools[i].number, made.pools[i].span->block_table, cache);
}

std::size_t LatentPools::state_floats() const {
  return compressor_.state_floats() + (index_compressor_ ? index_compressor_->state_floats() : 0);
}

std::vector<StatePart::Rows> LatentPools::state_rows() const {
  std::vector<StatePart::Rows> rows;
  if (const auto own = compressor_.state_rows()) rows.push_back(*own);
  if (!index_compressor_) return rows;
  if (const auto own = index_compressor_->state_rows()) rows.push_back(*own);
  return rows;
}

}  // namespace tp
