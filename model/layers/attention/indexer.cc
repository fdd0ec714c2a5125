#include "model/layers/attention/indexer.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/index_keys.h"
#include "model/kernels/rope.h"
#include "model/layers/attention/chosen_attention.h"
#include "model/layers/attention/host_attention.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <omp.h>

namespace tp {
namespace {

NormSpec key_norm(const IndexerSpec& spec) { return {.kind = NormSpec::Kind::layer, .eps = spec.norm_eps}; }

ColumnParallelLinear load_queries(WeightLoader& loader, const IndexerSpec& spec, std::size_t q_lora_rank,
                                  const std::string& name) {
  const std::size_t rows = spec.num_heads * spec.head_dim;
  const std::vector<OwnedRows> whole = {
      {{name, {rows, q_lora_rank}, "index_n_heads x index_head_dim", "q_lora_rank"}, {0, rows}}};
  return ColumnParallelLinear(loader, whole, false);
}

// Replaces chosen pools, which come first, by their positions, and adds those of the open tail.
void expand_pools(const IndexerSpec& spec, std::size_t position, std::span<std::int32_t> chosen) {
  if (spec.pool == 1) return;
  const std::size_t count = spec.chosen_positions(position);
  for (std::size_t i = count; i-- > 0;) {
    const std::size_t of_pools = spec.pools() * spec.pool;
    chosen[i] = i < of_pools ? static_cast<std::int32_t>(chosen[i / spec.pool] * spec.pool + i % spec.pool)
                             : static_cast<std::int32_t>(position - (count - 1 - i));
  }
}

// Chooses positions, or pools of positions, for the tokens of a step, round by round.
class Choice {
 public:
  Choice(const StepContext& step, const kernels::PagedCache& cache, std::size_t tokens,
         const IndexerSpec& spec)
      : step_(step),
        cache_(cache),
        spec_(spec),
        positions_(max_positions(step.spans(), cache.layout.block_size) / spec.pool),
        lists_(step.shared_cache != nullptr ? step.shared_cache->lists : nullptr) {
    const std::size_t group = std::min(tokens_per_group(), tokens);
    scores_ = step.workspace.take(group, positions_);
    ranks_ = step.workspace.take(group, positions_);
    scratch_ = step.workspace.take(static_cast<std::size_t>(omp_get_max_threads()),
                                   kernels::index_scratch(cache.layout, group));
  }

  void begin_round() const {
    if (lists_ != nullptr) lists_->begin_round();
  }

  // Chooses from this rank's positions.
  void choose_owned(const kernels::IndexQueries& queries, const ChosenGroup& tokens) const {
    const kernels::OwnedKeys owned(*tokens.span, cache_);
    kernels::index_scores(queries, *tokens.span, owned, cache_, scratch_, scores_);
    for_tokens(tokens, positions_, [&](std::size_t i) {
      const std::size_t seen = (tokens.position(i) + 1) / spec_.pool;  // complete pools
      const std::span<const float> scores(scores_.row(i), owned.before(seen));
      const std::span<float> ranks(ranks_.row(i), positions_);
      if (lists_ != nullptr) {
        kernels::list_highest(scores, owned, ranks, list_of(lists_->rank(), tokens, i));
      } else {
        kernels::choose_highest(scores, ranks, chosen_by(step_, tokens.row() + i, spec_.pools()));
        expand(tokens, i);
      }
    });
  }

  // Chooses from the lists of all ranks of the host.
  void merge(const ChosenGroup& tokens) const {
    if (lists_ == nullptr) return;
    for_tokens(tokens, lists_->ranks() * spec_.pools(), [&](std::size_t i) {
      std::vector<std::span<const kernels::ScoredPosition>> lists;
      for (std::size_t rank = 0; rank < lists_->ranks(); ++rank) lists.push_back(list_of(rank, tokens, i));
      kernels::merge_highest(lists, merge_scratch(), chosen_by(step_, tokens.row() + i, spec_.pools()));
      expand(tokens, i);
    });
  }

 private:
  // Calls use(i) for the tokens of a group. `work`: of a token.
  template <class Use>
  static void for_tokens(const ChosenGroup& tokens, std::size_t work, const Use& use) {
    for_thread_parts(tokens.count, tokens.count * work, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) use(i);
    });
  }

  void expand(const ChosenGroup& tokens, std::size_t i) const {
    expand_pools(spec_, tokens.position(i), chosen_by(step_, tokens.row() + i, spec_.max_positions()));
  }

  std::span<kernels::ScoredPosition> list_of(std::size_t rank, const ChosenGroup& tokens,
                                             std::size_t i) const {
    return lists_->of(rank, tokens.number % TopLists::kTokens + i).first(spec_.pools());
  }

  std::span<kernels::ScoredPosition> merge_scratch() const {
    const TensorView<float> scratch = step_.shared_cache->scratch;
    float* const own = scratch.row(static_cast<std::size_t>(omp_get_thread_num()));
    return {reinterpret_cast<kernels::ScoredPosition*>(own), lists_->ranks() * spec_.pools()};
  }

  const StepContext& step_;
  const kernels::PagedCache& cache_;
  const IndexerSpec& spec_;
  std::size_t positions_;     // or pools of the longest block table
  TopLists* lists_;           // null: this rank has all positions
  TensorView<float> scores_;  // [tokens of a group, positions]
  TensorView<float> ranks_;   // [tokens of a group, positions]
  TensorView<float> scratch_;
};

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
          kernels::pool_by_gates(closed[i].rows, addends, key);
          kernels::store_index_key(key.data(), closed[i].number, closed[i].span->block_table, cache);
        }
      });
  pools_->keep(raw, step);
}

void Indexer::choose(TensorView<const float> query_latent, TensorView<float> down, const StepContext& step,
                     const kernels::PagedCache& cache) const {
  if (max_positions(step.spans(), cache.layout.block_size) <= spec_.max_positions()) return;
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> query = q_b_proj_(query_latent, step);
  rotate(query, step);
  // The usual factor of query . key is part of the weights, because a positive factor passes max(0, x).
  const TensorView<float> weight = down.columns_from(raw_size(spec_), spec_.num_heads);
  kernels::scale(1.0F / std::sqrt(static_cast<float>(spec_.num_heads * spec_.head_dim)), weight);
  const Choice choice(step, cache, query.rows(), spec_);
  if (query.empty()) return;
  for (const auto& round : chosen_rounds(step.spans(), spec_.max_positions())) {
    choice.begin_round();
    for (const ChosenGroup& tokens : round)
      choice.choose_owned(
          {query.rows_from(tokens.row(), tokens.count), weight.rows_from(tokens.row(), tokens.count)},
          tokens);
    wait_for_host(step);
    for (const ChosenGroup& tokens : round) choice.merge(tokens);
  }
}

}  // namespace tp
