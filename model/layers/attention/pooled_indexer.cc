#include "model/layers/attention/pooled_indexer.h"

#include "model/kernels/index_keys.h"
#include "model/kernels/rope.h"
#include "model/layers/attention/chosen_attention.h"
#include "model/layers/attention/chosen_blocks.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace tp {
namespace {

constexpr const char* kIndexHeads = "indexer_n_heads x indexer_head_dim";

std::vector<OwnedRows> rows_of(const WeightSource& source, const PooledIndexerSpec& spec,
                               std::size_t hidden_size, const PooledIndexerNames& names) {
  const std::size_t queries = spec.num_heads * spec.head_dim;
  if (source.contains(tensor_names::weight_of(names.q_proj)))
    return {{{names.q_proj, {queries, hidden_size}, kIndexHeads, "hidden_size"}, {0, queries}},
            {{names.k_proj, {spec.head_dim, hidden_size}, "indexer_head_dim", "hidden_size"},
             {0, spec.head_dim}}};
  const std::size_t rows = queries + spec.head_dim;
  return {{{names.qk_proj, {rows, hidden_size}, "(indexer_n_heads + 1) x indexer_head_dim", "hidden_size"},
           {0, rows}}};
}

// The largest position matters to longrope only, which no model with such an indexer has.
std::optional<Rope> pooled_rope(const AttentionSpec& spec) {
  if (!spec.rope) return std::nullopt;
  return Rope(*spec.rope, 0);
}

// The scores of the tokens of a group, and their choices.
class PoolChoice {
 public:
  PoolChoice(const PooledIndexerSpec& spec, const kernels::AttentionArgs& args, const StepContext& step)
      : spec_(spec), cache_(args.cache.of_head(0)) {
    const std::size_t tokens = std::min(tokens_per_group(), args.query.rows());
    pools_ = max_positions(args.spans, cache_.layout.block_size) / spec.pool;
    ones_ = step.workspace.take(tokens, spec.num_heads);
    scores_ = step.workspace.take(tokens, pools_);
    ranks_ = step.workspace.take(tokens, pools_);
    chosen_ = step.workspace.take(tokens, spec.top_k + 1);
    scratch_ = step.workspace.take_per_thread(kernels::index_scratch(cache_.layout, tokens));
    for (std::size_t row = 0; row < tokens && !ones_.empty(); ++row)
      std::fill_n(ones_.row(row), spec.num_heads, 1.0F);
  }

  // query: of all tokens of the step, [tokens, num_heads * head_dim]
  void choose(TensorView<const float> query, const ChosenGroup& tokens) const {
    const kernels::OwnedKeys all(*tokens.span, cache_);
    kernels::index_scores({query.rows_from(tokens.row(), tokens.count), ones_.rows_from(0, tokens.count)},
                          *tokens.span, all, cache_, scratch_, scores_);
    for_thread_parts(tokens.count, tokens.count * pools_, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t complete = (tokens.position(i) + 1) / spec_.pool;
        kernels::choose_highest({scores_.row(i), complete}, {ranks_.row(i), complete},
                                row_of(i).first(spec_.top_k));
        row_of(i).back() = static_cast<std::int32_t>(complete);
      }
    });
  }

  // The pools that a token of the group reads, ascending: those that it chose, and the open one, if any of
  // its positions is before the token or at the token.
  std::span<const std::int32_t> of(const ChosenGroup& tokens, std::size_t i) const {
    const bool has_tail = (tokens.position(i) + 1) % spec_.pool != 0;
    return row_of(i).first(spec_.top_k + (has_tail ? 1 : 0));
  }

 private:
  std::span<std::int32_t> row_of(std::size_t i) const {
    return {reinterpret_cast<std::int32_t*>(chosen_.row(i)), spec_.top_k + 1};
  }

  const PooledIndexerSpec& spec_;
  kernels::PagedCache cache_;  // one KV head
  std::size_t pools_ = 0;
  TensorView<float> ones_;    // [tokens, num_heads] weights of index heads
  TensorView<float> scores_;  // [tokens, pools]
  TensorView<float> ranks_;   // [tokens, pools]
  TensorView<float> chosen_;  // integers in [tokens, top_k + 1]
  TensorView<float> scratch_;
};

}  // namespace

PooledIndexer::PooledIndexer(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
                             const PooledIndexerNames& names)
    : spec_(spec.pooled_indexer.value()),
      rope_(pooled_rope(spec)),
      proj_(loader, rows_of(loader.source(), spec_, hidden_size, names), false),
      query_norm_(loader, names.q_norm, spec_.head_dim, spec_.norm),
      key_norm_(loader, names.k_norm, spec_.head_dim, spec_.norm),
      pools_(spec_.pool, spec_.head_dim) {}

void PooledIndexer::attend(TensorView<const float> x, const kernels::AttentionArgs& args,
                           const StepContext& step) const {
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> projected = proj_(x, step);
  const TensorView<float> query = projected.columns_from(0, spec_.num_heads * spec_.head_dim);
  query_norm_.apply_in_place(query);
  if (rope_) {
    const RopeAngles& angles = step.angles(rope_->spec());
    kernels::rotate(query, spec_.head_dim, angles.cosine, angles.sine);
  }
  remember(projected.columns_from(query.columns(), spec_.head_dim), args.cache, step);
  if (attend_if_short(args, spec_.max_positions(), false, step)) attend_to_pools(query, args, step);
}

void PooledIndexer::remember(TensorView<const float> key, const kernels::PagedCache& cache,
                             const StepContext& step) const {
  const Workspace::Frame frame(step.workspace);
  const std::vector<OpenPools::Closed> closed = pools_.closed(key, step);
  // Room for as many keys as the step has tokens, because a shape-only step closes no pools.
  const TensorView<float> keys = step.workspace.take(key.rows(), spec_.head_dim);
  std::vector<std::size_t> first(key.rows());
  const float part = 1.0F / static_cast<float>(spec_.pool);
  for (std::size_t i = 0; i < closed.size(); ++i) {
    first[i] = closed[i].number * spec_.pool;
    float* const sum = keys.row(i);
    std::fill_n(sum, spec_.head_dim, 0.0F);
    for (const float* const row : closed[i].rows) {
      for (std::size_t d = 0; d < spec_.head_dim; ++d) sum[d] += row[d];
    }
    for (std::size_t d = 0; d < spec_.head_dim; ++d) sum[d] *= part;
  }
  const TensorView<float> pooled = keys.rows_from(0, closed.size());
  key_norm_.apply_in_place(pooled);
  if (rope_) {
    const RopeAngles angles = (*rope_)(first, step.workspace);
    kernels::rotate(pooled, spec_.head_dim, angles.cosine.rows_from(0, closed.size()),
                    angles.sine.rows_from(0, closed.size()));
  }
  for (std::size_t i = 0; i < closed.size(); ++i)
    kernels::store_index_key(keys.row(i), closed[i].number, closed[i].span->block_table, cache);
  pools_.keep(key, step);
}

void PooledIndexer::attend_to_pools(TensorView<const float> query, const kernels::AttentionArgs& args,
                                    const StepContext& step) const {
  const PoolChoice choice(spec_, args, step);
  if (query.empty()) return;
  const auto attend_with = [&](const ChosenGroup& tokens) {
    choice.choose(query, tokens);
    std::vector<ShortSequence> sequences;
    for (std::size_t i = 0; i < tokens.count; ++i)
      sequences.push_back(sequence_of(choice.of(tokens, i), spec_.pool, tokens.position(i),
                                      tokens.span->block_table, args.cache.layout.block_size));
    attend_to_sequences(args, sequences, tokens.row());
  };
  for (const auto& round : chosen_rounds(args.spans, spec_.max_positions()))
    std::ranges::for_each(round, attend_with);
}

}  // namespace tp
