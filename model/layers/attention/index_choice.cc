#include "model/layers/attention/index_choice.h"

#include "model/layers/attention/chosen_attention.h"
#include "model/layers/attention/host_attention.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
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

// The blocks of candidates with the highest scores, ascending. The last block is always chosen. scores: of
// all pools that the token sees.
void choose_candidates(std::span<const float> scores, std::size_t block_size,
                       std::span<std::int32_t> chosen) {
  std::vector<float> highest;
  for (std::size_t first = 0; first < scores.size(); first += block_size)
    highest.push_back(std::ranges::max(scores.subspan(first, std::min(block_size, scores.size() - first))));
  highest.back() = std::numeric_limits<float>::infinity();
  std::vector<float> scratch(highest.size());
  kernels::choose_highest(highest, scratch, chosen);
}

// Makes the scores of pools outside of the candidates the lowest. scores: of the first owned keys.
void hide_others(std::span<const std::int32_t> candidates, std::size_t block_size,
                 const kernels::OwnedKeys& owned, std::span<float> scores) {
  auto candidate = candidates.begin();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto block = static_cast<std::int32_t>(owned.key(i) / block_size);
    while (candidate != candidates.end() && *candidate < block) ++candidate;
    if (candidate == candidates.end() || *candidate != block)
      scores[i] = -std::numeric_limits<float>::infinity();
  }
}

// Chooses positions, or pools of positions, for the tokens of a step, round by round.
class Choice {
 public:
  Choice(const StepContext& step, const kernels::PagedCache& cache, std::size_t tokens,
         const IndexerSpec& spec)
      : step_(step),
        cache_(readable(cache, spec)),
        spec_(spec),
        positions_(max_positions(step.spans(), cache.layout.block_size) / spec.pool),
        lists_(step.shared_cache != nullptr && !reads_all(spec) ? step.shared_cache->lists : nullptr) {
    const std::size_t group = std::min(tokens_per_group(), tokens);
    scores_ = step.workspace.take(group, positions_);
    ranks_ = step.workspace.take(group, positions_);
    scratch_ = step.workspace.take_per_thread(kernels::index_scratch(cache.layout, group));
  }

  // Whether this rank reads the keys of all ranks of the host.
  static bool reads_all(const IndexerSpec& spec) {
    return spec.candidates && spec.candidates->chooses_candidates;
  }

  void begin_round() const {
    if (lists_ != nullptr) lists_->begin_round();
  }

  // Chooses from this rank's positions.
  void choose_owned(const kernels::IndexQueries& queries, const ChosenGroup& tokens) const {
    const std::vector<bool> wanted = blocks_with_candidates(tokens);
    const kernels::OwnedKeys owned(*tokens.span, cache_, wanted);
    kernels::index_scores(queries, *tokens.span, owned, cache_, scratch_, scores_);
    for_tokens(tokens, positions_, [&](std::size_t i) {
      const std::size_t seen = (tokens.position(i) + 1) / spec_.pool;  // complete pools
      const std::span<float> scores(scores_.row(i), owned.before(seen));
      if (has_candidates(seen)) use_candidates(tokens, i, owned, scores);
      const std::span<float> ranks(ranks_.row(i), positions_);
      if (lists_ != nullptr) {
        kernels::list_highest(scores, owned, ranks, list_of(lists_->rank(), tokens, i));
      } else {
        const std::span<std::int32_t> chosen = chosen_of(tokens, i);
        kernels::choose_highest(scores, ranks, chosen);
        if (!wanted.empty()) {
          for (std::int32_t& pool : chosen)
            pool = static_cast<std::int32_t>(owned.key(static_cast<std::size_t>(pool)));
        }
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
      kernels::merge_highest(lists, merge_scratch(), chosen_of(tokens, i));
      expand(tokens, i);
    });
  }

 private:
  static kernels::PagedCache readable(kernels::PagedCache cache, const IndexerSpec& spec) {
    if (reads_all(spec)) cache.owned = {};
    return cache;
  }

  bool has_candidates(std::size_t seen) const {
    return spec_.candidates && seen > spec_.candidates->max_pools();
  }

  // The candidates of a token of a group.
  std::span<std::int32_t> candidates_of(const ChosenGroup& tokens, std::size_t i) const {
    return {reinterpret_cast<std::int32_t*>(step_.candidates.row(tokens.row() + i)),
            spec_.candidates->blocks};
  }

  // Which blocks of the cache have candidates of the tokens of a group, for OwnedKeys. Empty: a token sees so
  // few pools that all are candidates, or the candidates are yet to be chosen.
  std::vector<bool> blocks_with_candidates(const ChosenGroup& tokens) const {
    const auto seen = [&](std::size_t i) { return (tokens.position(i) + 1) / spec_.pool; };
    if (reads_all(spec_) || !has_candidates(seen(0))) return {};
    std::vector<bool> blocks(tokens.span->keys() / cache_.layout.block_size + 1);
    for (std::size_t i = 0; i < tokens.count; ++i) {
      for (const std::int32_t candidate : candidates_of(tokens, i)) {
        const std::size_t first = static_cast<std::size_t>(candidate) * spec_.candidates->block_size;
        const std::size_t last = std::min(first + spec_.candidates->block_size, seen(i)) - 1;
        const std::size_t end = cache_.layout.block_of_index_key(last) + 1;
        for (std::size_t block = cache_.layout.block_of_index_key(first); block < end; ++block)
          blocks[block] = true;
      }
    }
    return blocks;
  }

  // Chooses the candidates of a token of a group, or hides the scores of others.
  void use_candidates(const ChosenGroup& tokens, std::size_t i, const kernels::OwnedKeys& owned,
                      std::span<float> scores) const {
    const CandidatesSpec& spec = *spec_.candidates;
    const std::span<std::int32_t> blocks = candidates_of(tokens, i);
    if (spec.chooses_candidates)
      choose_candidates(scores, spec.block_size, blocks);
    else
      hide_others(blocks, spec.block_size, owned, scores);
  }

  // Calls use(i) for the tokens of a group. `work`: of a token.
  template <class Use>
  static void for_tokens(const ChosenGroup& tokens, std::size_t work, const Use& use) {
    for_thread_parts(tokens.count, tokens.count * work, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) use(i);
    });
  }

  // Room for the pools that a token chooses.
  std::span<std::int32_t> chosen_of(const ChosenGroup& tokens, std::size_t i) const {
    const std::size_t seen = (tokens.position(i) + 1) / spec_.pool;
    return chosen_by(step_, tokens.row() + i, spec_.chosen_pools(seen));
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
  kernels::PagedCache cache_;
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
  if (Choice::reads_all(spec) && !rounds.empty()) wait_for_host(step);
  for (const auto& round : rounds) {
    choice.begin_round();
    for (const ChosenGroup& tokens : round)
      choice.choose_owned({queries.query.rows_from(tokens.row(), tokens.count),
                           queries.weight.rows_from(tokens.row(), tokens.count)},
                          tokens);
    if (!Choice::reads_all(spec)) wait_for_host(step);
    for (const ChosenGroup& tokens : round) choice.merge(tokens);
  }
  return !rounds.empty();
}

}  // namespace tp
