#include "model/layers/attention/indexer.h"

#include "model/kernels/elementwise.h"
#include "model/kernels/index_keys.h"
#include "model/kernels/rope.h"
#include "model/layers/attention/chosen_attention.h"
#include "model/layers/attention/host_attention.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cmath>
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

// Chooses positions for the tokens of a step, round by round.
class Choice {
 public:
  Choice(const StepContext& step, const kernels::PagedCache& cache, std::size_t tokens, std::size_t top_k)
      : step_(step),
        cache_(cache),
        top_k_(top_k),
        positions_(most_positions(step.spans(), cache.layout.block_size)),
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
    const kernels::OwnedPositions owned(*tokens.span, cache_);
    kernels::index_scores(queries, *tokens.span, owned, cache_, scratch_, scores_);
    for_tokens(tokens, positions_, [&](std::size_t i) {
      const std::span<const float> scores(scores_.row(i), owned.before(tokens.position(i) + 1));
      const std::span<float> ranks(ranks_.row(i), positions_);
      if (lists_ != nullptr)
        kernels::list_highest(scores, owned, ranks, list_of(lists_->rank(), tokens, i));
      else
        kernels::choose_highest(scores, ranks, chosen_by(step_, tokens.row() + i, top_k_));
    });
  }

  // Chooses from the lists of all ranks of the host.
  void merge(const ChosenGroup& tokens) const {
    if (lists_ == nullptr) return;
    for_tokens(tokens, lists_->ranks() * top_k_, [&](std::size_t i) {
      std::vector<std::span<const kernels::ScoredPosition>> lists;
      for (std::size_t rank = 0; rank < lists_->ranks(); ++rank) lists.push_back(list_of(rank, tokens, i));
      kernels::merge_highest(lists, merge_scratch(), chosen_by(step_, tokens.row() + i, top_k_));
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

  std::span<kernels::ScoredPosition> list_of(std::size_t rank, const ChosenGroup& tokens,
                                             std::size_t i) const {
    return lists_->of(rank, tokens.number % TopLists::kTokens + i).first(top_k_);
  }

  std::span<kernels::ScoredPosition> merge_scratch() const {
    const TensorView<float> scratch = step_.shared_cache->scratch;
    float* const own = scratch.row(static_cast<std::size_t>(omp_get_thread_num()));
    return {reinterpret_cast<kernels::ScoredPosition*>(own), lists_->ranks() * top_k_};
  }

  const StepContext& step_;
  const kernels::PagedCache& cache_;
  std::size_t top_k_;
  std::size_t positions_;
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
  if (!spec_.rotates_last) return rotate(x, spec_.head_dim, angles.cosine, angles.sine);
  const std::size_t size = rope_->rotary_dim;
  for (std::size_t end = spec_.head_dim; end <= x.columns(); end += spec_.head_dim)
    rotate(x.columns_from(end - size, size), size, angles.cosine, angles.sine);
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
  if (most_positions(step.spans(), cache.layout.block_size) <= spec_.top_k) return;
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> query = q_b_proj_(query_latent, step);
  rotate(query, step);
  // The usual factor of query . key is part of the weights, because a positive factor passes max(0, x).
  const TensorView<float> weight = down.columns_from(spec_.head_dim, spec_.num_heads);
  kernels::scale(1.0F / std::sqrt(static_cast<float>(spec_.num_heads * spec_.head_dim)), weight);
  const Choice choice(step, cache, query.rows(), spec_.top_k);
  if (query.empty()) return;
  for (const auto& round : chosen_rounds(step.spans(), spec_.top_k)) {
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
