// Attention of few tokens to long contexts, whose splits several ranks compute. Each rank attends to some
// splits with the queries of all ranks. Then the rank of a query head merges the head's results.
#pragma once

#include "model/kernels/attention.h"

#include <cstddef>
#include <span>

namespace tp::kernels {

// Whether attend_to_owned_splits accepts the span: its tokens are the last of a sequence, see all of it, and
// fit into one tile.
bool can_share_splits(const AttentionSpan& span, const AttentionArgs& args);

// Splits of the span's sequence, see attention_scratch.h.
std::size_t number_of_splits(const AttentionSpan& span, const KvLayout& layout);

// Floats for the results of all splits of a span.
std::size_t split_results(const AttentionSpan& span, std::span<const std::size_t> kv_of_head,
                          const KvLayout& layout);

// The heads that `kv_of_head` lists, of all ranks.
struct SharedHeads {
  std::span<const std::size_t> kv_of_head;  // [heads]
  const KvLayout& layout;
};

// Attends with all heads of `args` to the splits whose first block args.cache owns. Leaves their results in
// `results`, which has room for split_results() of all spans. args.out and args.sinks are not used.
void attend_to_owned_splits(const AttentionArgs& args, float* results);

// Merges the results of all splits in the order of positions, as paged_attention does, for the heads of
// `args`, which are heads [first_head, ...) of `all`. args.query and the cache's contents are not used.
void merge_splits(const AttentionArgs& args, const SharedHeads& all, std::size_t first_head, float* results);

}  // namespace tp::kernels
