#include "model/kernels/split_attention.h"

#include "model/kernels/attention_scratch.h"
#include "model/kernels/attention_tiles.h"

#include <algorithm>
#include <vector>

#include <omp.h>

namespace tp::kernels {
namespace {

// The query heads that read a KV head.
struct HeadGroup {
  std::size_t begin;
  std::size_t end;

  std::size_t size() const { return end - begin; }
};

HeadGroup group_of(std::span<const std::size_t> kv_of_head, std::size_t kv_head) {
  const auto [begin, end] = std::equal_range(kv_of_head.begin(), kv_of_head.end(), kv_head);
  return {static_cast<std::size_t>(begin - kv_of_head.begin()),
          static_cast<std::size_t>(end - kv_of_head.begin())};
}

SoftmaxSums take_sums(Carver& carve, std::size_t rows, const KvLayout& layout) {
  float* const out = carve.take<float>(whole_tiles(rows) * layout.value_columns());
  float* const maxima = carve.take<float>(whole_tiles(rows));
  return {out, maxima, carve.take<float>(whole_tiles(rows))};
}

// The results of one span and one KV head. Row t * group.size() + h belongs to token t of the span, and to
// head h of the group.
struct SplitResults {
  const AttentionSpan* span;
  std::size_t kv_head;
  HeadGroup group;
  std::vector<SoftmaxSums> splits;  // in the order of positions
};

std::vector<SplitResults> results_of(const AttentionSpan& span, const SharedHeads& heads, Carver& carve) {
  std::vector<SplitResults> all;
  for (std::size_t kv_head = 0; kv_head < heads.layout.kv_heads; ++kv_head) {
    SplitResults& results =
        all.emplace_back(SplitResults{&span, kv_head, group_of(heads.kv_of_head, kv_head), {}});
    for (std::size_t split = 0; split < number_of_splits(span, heads.layout); ++split)
      results.splits.push_back(take_sums(carve, span.tokens * results.group.size(), heads.layout));
  }
  return all;
}

// A split to compute.
struct OwnedSplit {
  const AttentionSpan* span;
  std::size_t kv_head;
  std::size_t split;
  SoftmaxSums sums;

  bool is_of_same_tile(const OwnedSplit& other) const {
    return span == other.span && kv_head == other.kv_head;
  }
};

std::vector<OwnedSplit> owned_splits(const AttentionArgs& args, float* memory) {
  const std::size_t blocks = blocks_per_split(args.cache.layout);
  Carver carve(memory);
  std::vector<OwnedSplit> owned;
  for (const AttentionSpan& span : args.spans) {
    for (const SplitResults& results : results_of(span, {args.kv_of_head, args.cache.layout}, carve)) {
      for (std::size_t split = 0; split < results.splits.size(); ++split) {
        const auto first = static_cast<std::size_t>(span.block_table[split * blocks]);
        if (args.cache.owns(first, results.kv_head))
          owned.push_back({&span, results.kv_head, split, results.splits[split]});
      }
    }
  }
  return owned;
}

}  // namespace

bool can_share_splits(const AttentionSpan& span, const AttentionArgs& args) {
  return args.pattern == AttentionPattern{} && args.relative_bias.empty() && span.sees_only_backwards() &&
         span.tokens <= tokens_per_tile(largest_group(args.kv_of_head));
}

std::size_t number_of_splits(const AttentionSpan& span, const KvLayout& layout) {
  const std::size_t positions = blocks_per_split(layout) * layout.block_size;
  return (span.keys() + positions - 1) / positions;
}

std::size_t split_results(const AttentionSpan& span, std::span<const std::size_t> kv_of_head,
                          const KvLayout& layout) {
  Carver count(nullptr);
  results_of(span, {kv_of_head, layout}, count);
  return count.used();
}

void attend_to_owned_splits(const AttentionArgs& args, float* results) {
  const TiledAttention attention(args);
  const std::vector<OwnedSplit> owned = owned_splits(args, results);
#pragma omp parallel for schedule(static) if (attention.is_worth_threads())
  for (std::size_t i = 0; i < owned.size(); ++i) {
    TileScratch own = attention.scratch(static_cast<std::size_t>(omp_get_thread_num()));
    own.split = owned[i].sums;
    const Tile tile = attention.tile_of(*owned[i].span, owned[i].kv_head);
    attention.gather_rows(tile, own);
    const SeenSplits splits = attention.splits_of(tile, own);
    const bool continues = i + 1 < owned.size() && owned[i + 1].is_of_same_tile(owned[i]);
    attention.attend(tile, splits, owned[i].split, continues ? owned[i + 1].split : splits.size(), own);
  }
}

void merge_splits(const AttentionArgs& args, const SharedHeads& all, std::size_t first_head, float* results) {
  const TiledAttention attention(args);
  const KvLayout& layout = args.cache.layout;
  Carver carve(results);
  for (const AttentionSpan& span : args.spans) {
    const std::vector<SplitResults> heads = results_of(span, all, carve);
#pragma omp parallel for collapse(2) schedule(static) if (attention.is_worth_threads())
    for (std::size_t token = 0; token < span.tokens; ++token) {
      for (std::size_t head = 0; head < args.kv_of_head.size(); ++head) {
        const SplitResults& of_head = heads[all.kv_of_head[first_head + head]];
        const std::size_t row = token * of_head.group.size() + first_head + head - of_head.group.begin;
        const SoftmaxSums total = attention.scratch(static_cast<std::size_t>(omp_get_thread_num())).total;
        attention.clear(total, 1);
        for (const SoftmaxSums& split : of_head.splits)
          attention.merge({split.out + row * layout.value_columns(), split.maxima + row, split.sums + row}, 1,
                          total);
        attention.write_row(total, 0, span.first_token + token, head);
      }
    }
  }
}

}  // namespace tp::kernels
