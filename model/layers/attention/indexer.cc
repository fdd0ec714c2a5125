#include "model/layers/attention/indexer.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/index_keys.h"
#include "model/kernels/rope.h"
#include "model/layers/attention/chosen_attention.h"
#include "model/layers/attention/host_attention.h"
#include "tp/internal/threads.h"

#include <cmath>

#include <omp.h>

namespace tp {
namespace {

constexpr NormSpec kKeyNorm{.kind = NormSpec::Kind::layer, .eps = 1e-6F};

ColumnParallelLinear load_queries(WeightLoader& loader, const IndexerSpec& spec, std::size_t q_lora_rank,
                                  const std::string& name) {
  const std::size_t rows = spec.num_heads * spec.head_dim;
  const std::vector<OwnedRows> whole = {
      {{name, {rows, q_lora_rank}, "index_n_heads x index_head_dim", "q_lora_rank"}, {0, rows}}};
  return ColumnParallelLinear(loader, whole, false);
}

}  // namespace

Indexer::Indexer(WeightLoader& loader, const IndexerSpec& spec, const std::optional<RopeSpec>& rope,
                 std::size_t q_lora_rank, const IndexerNames& names)
    : spec_(spec),
      rope_(rope),
      k_norm_(loader, names.k_norm, spec.head_dim, kKeyNorm, "index_head_dim"),
      q_b_proj_(load_queries(loader, spec, q_lora_rank, names.q_b_proj)) {}

std::vector<OwnedRows> Indexer::down_rows(const IndexerSpec& spec, std::size_t hidden_size,
                                          const IndexerNames& names) {
  return {{{names.k_proj, {spec.head_dim, hidden_size}, "index_head_dim", "hidden_size"}, {0, spec.head_dim}},
          {{names.weights_proj, {spec.num_heads, hidden_size}, "index_n_heads", "hidden_size"},
           {0, spec.num_heads}}};
}

void Indexer::rotate(TensorView<float> x, const StepContext& step) const {
  if (!rope_) return;
  const RopeAngles& angles = step.angles(*rope_);
  const auto rotate = spec_.interleaved_rope ? kernels::rotate_pairs : kernels::rotate;
  rotate(x, spec_.head_dim, angles.cosine, angles.sine);
}

void Indexer::remember(TensorView<float> down, const StepContext& step,
                       const kernels::PagedCache& cache) const {
  const TensorView<float> key = down.columns_from(0, spec_.head_dim);
  k_norm_.apply_in_place(key);
  rotate(key, step);
  kernels::store_index_keys(key, step.spans(), cache);
}

void Indexer::choose(TensorView<const float> query_latent, TensorView<float> down, const StepContext& step,
                     const kernels::PagedCache& cache) const {
  const std::size_t positions = most_positions(step.spans(), cache.layout.block_size);
  if (positions <= spec_.top_k) return;
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> query = q_b_proj_(query_latent, step);
  rotate(query, step);
  // The usual factor of query . key is part of the weights, because a positive factor passes max(0, x).
  const TensorView<float> weight = down.columns_from(spec_.head_dim, spec_.num_heads);
  kernels::scale(1.0F / std::sqrt(static_cast<float>(spec_.num_heads * spec_.head_dim)), weight);
  const std::size_t group = std::min(tokens_per_group(), query.rows());
  const TensorView<float> scores = step.workspace.take(group, positions);
  const TensorView<float> ranks = step.workspace.take(group, positions);
  const TensorView<float> scratch = step.workspace.take(static_cast<std::size_t>(omp_get_max_threads()),
                                                        kernels::index_scratch(cache.layout, group));
  if (query.empty()) return;
  wait_for_keys(step);
  for_chosen_groups(step.spans(), spec_.top_k, [&](const ChosenGroup& tokens) {
    kernels::index_scores(
        {query.rows_from(tokens.row(), tokens.count), weight.rows_from(tokens.row(), tokens.count)},
        *tokens.span, cache, scratch, scores);
    for_thread_parts(tokens.count, tokens.count * positions, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        kernels::choose_highest({scores.row(i), tokens.position(i) + 1}, {ranks.row(i), positions},
                                chosen_by(step, tokens.row() + i, spec_.top_k));
    });
  });
}

}  // namespace tp
