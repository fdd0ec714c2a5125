#include "model/layers/attention/block_indexer.h"

#include "model/kernels/index_keys.h"
#include "model/kernels/rope.h"
#include "model/layers/attention/chosen_attention.h"
#include "model/layers/attention/chosen_blocks.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tp {
namespace {

using kernels::AttentionArgs;

std::vector<OwnedRows> rows_of(const BlockIndexerSpec& spec, std::size_t heads, std::size_t hidden_size,
                               const BlockIndexerNames& names, Range own) {
  const std::size_t size = spec.head_dim;
  return {{{names.q_proj,
            {heads * size, hidden_size},
            "sparse_num_index_heads x sparse_index_dim",
            "hidden_size"},
           {own.begin * size, own.end * size}},
          {{names.k_proj, {size, hidden_size}, "sparse_index_dim", "hidden_size"}, {0, size}}};
}

// The scores of the tokens of a group, and their choices. A row belongs to a token and a KV head.
class BlockChoice {
 public:
  BlockChoice(const BlockIndexerSpec& spec, std::size_t kv_heads, const AttentionArgs& args,
              const StepContext& step)
      : spec_(spec), kv_heads_(kv_heads), cache_(args.cache.of_head(0)) {
    const std::size_t tokens = std::min(tokens_per_group(), args.query.rows());
    const std::size_t rows = tokens * kv_heads;
    positions_ = max_positions(args.spans, cache_.layout.block_size);
    const std::size_t blocks = (positions_ + spec.block_size - 1) / spec.block_size;
    queries_ = step.workspace.take(rows, spec.head_dim);
    ones_ = step.workspace.take(rows, 1);
    scores_ = step.workspace.take(rows, positions_);
    highest_ = step.workspace.take(rows, blocks);
    ranks_ = step.workspace.take(rows, blocks);
    chosen_ = step.workspace.take(rows, spec.top_k);
    scratch_ = step.workspace.take_per_thread(kernels::index_scratch(cache_.layout, rows));
  }

  // query: of all tokens of the step, [tokens, kv_heads * head_dim]
  void choose(TensorView<const float> query, const ChosenGroup& tokens) const {
    const std::size_t rows = tokens.count * kv_heads_;
    for (std::size_t row = 0; row < rows; ++row) {
      const float* const of_token = query.row(tokens.row() + row / kv_heads_);
      std::copy_n(of_token + row % kv_heads_ * spec_.head_dim, spec_.head_dim, queries_.row(row));
      *ones_.row(row) = 1.0F;
    }
    const kernels::OwnedKeys all(*tokens.span, cache_);
    kernels::index_scores({queries_.rows_from(0, rows), ones_.rows_from(0, rows), false}, *tokens.span, all,
                          cache_, scratch_, scores_);
    for_thread_parts(rows, rows * positions_, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row)
        choose_row(row, tokens.position(row / kv_heads_) / spec_.block_size);
    });
  }

  // The blocks that a token of the group reads for a KV head, ascending.
  std::span<const std::int32_t> of(std::size_t token, std::size_t kv_head) const {
    return row_of(token * kv_heads_ + kv_head);
  }

 private:
  std::span<std::int32_t> row_of(std::size_t row) const {
    return {reinterpret_cast<std::int32_t*>(chosen_.row(row)), spec_.top_k};
  }

  // `own`: the token's block. The blocks before it are whole.
  void choose_row(std::size_t row, std::size_t own) const {
    const std::span<float> highest(highest_.row(row), own + 1);
    for (std::size_t block = 0; block < own; ++block) {
      const float* const scores = scores_.row(row) + block * spec_.block_size;
      highest[block] = *std::max_element(scores, scores + spec_.block_size);
    }
    std::ranges::fill(highest.last(std::min(spec_.local, highest.size())),
                      std::numeric_limits<float>::infinity());
    kernels::choose_highest(highest, {ranks_.row(row), own + 1}, row_of(row));
  }

  const BlockIndexerSpec& spec_;
  std::size_t kv_heads_;
  kernels::PagedCache cache_;  // one KV head
  std::size_t positions_ = 0;
  TensorView<float> queries_;  // [rows, head_dim]
  TensorView<float> ones_;     // [rows, 1] the index head's weight
  TensorView<float> scores_;   // [rows, positions]
  TensorView<float> highest_;  // [rows, blocks] scores of blocks
  TensorView<float> ranks_;    // [rows, blocks]
  TensorView<float> chosen_;   // integers in [rows, top_k]
  TensorView<float> scratch_;
};

// The query heads that read a KV head.
Range heads_of(std::span<const std::size_t> kv_of_head, std::size_t kv_head) {
  const auto [begin, end] = std::equal_range(kv_of_head.begin(), kv_of_head.end(), kv_head);
  return {static_cast<std::size_t>(begin - kv_of_head.begin()),
          static_cast<std::size_t>(end - kv_of_head.begin())};
}

// The arguments of attention with only the heads of one KV head.
class ArgsOfHead {
 public:
  ArgsOfHead(const AttentionArgs& args, std::size_t kv_head) : args_(args) {
    const Range heads = heads_of(args.kv_of_head, kv_head);
    const auto part = [&](std::span<const float> all) {
      return all.empty() ? all : all.subspan(heads.begin, heads.size());
    };
    const kernels::KvLayout& layout = args.cache.layout;
    args_.query = args.query.columns_from(heads.begin * layout.key_dim, heads.size() * layout.key_dim);
    args_.out = args.out.columns_from(heads.begin * layout.value_dim, heads.size() * layout.value_dim);
    args_.cache = args.cache.of_head(kv_head);
    args_.sinks = part(args.sinks);
    args_.alibi_slopes = part(args.alibi_slopes);
    first_head_.assign(heads.size(), 0);
    args_.kv_of_head = first_head_;
  }

  const AttentionArgs& args() const { return args_; }

 private:
  AttentionArgs args_;
  std::vector<std::size_t> first_head_;  // zeros
};

}  // namespace

BlockIndexer::BlockIndexer(WeightLoader& loader, const AttentionSpec& spec, std::size_t hidden_size,
                           const BlockIndexerNames& names, const HeadShard& shard)
    : spec_(spec.block_indexer.value()),
      kv_heads_(shard.local_kv_heads()),
      rope_(spec.rope),
      interleaved_rope_(spec.interleaved_rope),
      proj_(loader, rows_of(spec_, spec.num_key_value_heads, hidden_size, names, shard.kv_heads), false),
      query_norm_(loader, names.q_norm, spec_.head_dim, spec_.norm),
      key_norm_(loader, names.k_norm, spec_.head_dim, spec_.norm) {}

void BlockIndexer::attend(TensorView<const float> x, const AttentionArgs& args,
                          const StepContext& step) const {
  const Workspace::Frame frame(step.workspace);
  const TensorView<float> projected = proj_(x, step);
  const TensorView<float> query = projected.columns_from(0, kv_heads_ * spec_.head_dim);
  const TensorView<float> key = projected.columns_from(query.columns(), spec_.head_dim);
  query_norm_.apply_in_place(query);
  key_norm_.apply_in_place(key);
  if (rope_) {
    const RopeAngles& angles = step.angles(*rope_);
    const auto rotate = interleaved_rope_ ? kernels::rotate_pairs : kernels::rotate;
    rotate(projected, spec_.head_dim, angles.cosine, angles.sine);
  }
  kernels::store_index_keys(key, args.spans, args.cache);
  if (attend_if_short(args, spec_.max_positions(), false, step)) attend_to_blocks(query, args, step);
}

void BlockIndexer::attend_to_blocks(TensorView<const float> query, const AttentionArgs& args,
                                    const StepContext& step) const {
  const BlockChoice choice(spec_, kv_heads_, args, step);
  if (query.empty()) return;
  const auto attend_with = [&](const ChosenGroup& tokens) {
    choice.choose(query, tokens);
    std::vector<ShortSequence> sequences(tokens.count);
    for (std::size_t kv_head = 0; kv_head < kv_heads_; ++kv_head) {
      for (std::size_t i = 0; i < tokens.count; ++i) {
        sequences[i] = sequence_of(choice.of(i, kv_head), spec_.block_size, tokens.position(i),
                                   tokens.span->block_table, args.cache.layout.block_size);
      }
      attend_to_sequences(ArgsOfHead(args, kv_head).args(), sequences, tokens.row());
    }
  };
  for (const auto& round : chosen_rounds(args.spans, spec_.max_positions()))
    std::ranges::for_each(round, attend_with);
}

}  // namespace tp
