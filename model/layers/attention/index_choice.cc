#include "model/layers/attention/index_choice.h"

#include "model/layers/attention/chosen_attention.h"
#include "model/layers/attention/host_attention.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <omp.h>

namespace tp {
namespace {

// Replaces chosen pools, which come first, by their positions, and adds those of the open tail.
void expand_pools(const IndexerSpec& spec, std::size_t position, std::span<std::int32_t> chosen) {
  if (spec.pool == 1 || spec.reads_pools) return;
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
    expand_pools(spec_, tokens.position(i), chosen_by(step_, tokens.row() + i, spec_.max_chosen()));
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

bool may_choose(const IndexerSpec& spec, const StepContext& step, const kernels::PagedCache& cache) {
  return max_positions(step.spans(), cache.layout.block_size) > spec.max_positions();
}

bool choose_by_index(const kernels::IndexQueries& queries, const IndexerSpec& spec, const StepContext& step,
                     const kernels::PagedCache& cache) {
  const Choice choice(step, cache, queries.query.rows(), spec);
  if (queries.query.empty()) return false;
  const auto rounds = chosen_rounds(step.spans(), spec.max_positions());
  for (const auto& round : rounds) {
    choice.begin_round();
    for (const ChosenGroup& tokens : round)
      choice.choose_owned({queries.query.rows_from(tokens.row(), tokens.count),
                           queries.weight.rows_from(tokens.row(), tokens.count)},
                          tokens);
    wait_for_host(step);
    for (const ChosenGroup& tokens : round) choice.merge(tokens);
  }
  return !rounds.empty();
}

}  // namespace tp
