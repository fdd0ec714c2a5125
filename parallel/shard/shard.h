// Which rank owns what: arithmetic only, no communication and no tensors.
//
// Every rank can compute the share of every other, so neither `tp-infer inspect` nor the tests need MPI.
#pragma once

#include <cstddef>
#include <span>

namespace tp {

// The half-open interval [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool contains(std::size_t index) const { return index >= begin && index < end; }
  bool operator==(const Range&) const = default;
};

// A rank among the ranks of a tensor-parallel group.
struct TpRank {
  std::size_t rank = 0;
  std::size_t size = 1;
  // How much of the model each rank takes, relative to the others: [size], positive; empty: all the same.
  // Must outlive what uses it.
  std::span<const double> split{};

  // The rank that contributes what must be counted once, such as the bias of a row-parallel layer.
  bool is_first() const { return rank == 0; }
};

// Part `tp.rank` of [0, total), divided into `tp.size` contiguous parts of whole granules. If the
// granules do not divide evenly, the first parts get one more. The last granule may be cut short by `total`;
// a part may be empty.
Range split_evenly(std::size_t total, TpRank tp, std::size_t granule = 1);

// Divides by the ranks' `split`, if they have one: each boundary is the whole granule nearest to the exact
// one. If there are at least as many granules as ranks, every part has at least one.
Range split_by_weights(std::size_t total, TpRank tp, std::size_t granule = 1);

// The attention heads of one rank. Query heads are divided by split_by_weights, and the rank holds every KV
// head that one of its query heads reads: whole groups if the boundaries between ranks are those of groups,
// else some KV heads are replicated on several ranks.
struct HeadShard {
  Range query_heads;
  Range kv_heads;
  std::size_t queries_per_kv = 1;  // num_attention_heads / num_key_value_heads, of the whole model

  std::size_t local_heads() const { return query_heads.size(); }
  std::size_t local_kv_heads() const { return kv_heads.size(); }
  // KV heads that this rank owns, for counts: those whose first query head it has. Every KV head has one
  // owner.
  Range owned_kv_heads() const {
    const auto first_from = [&](std::size_t query) { return (query + queries_per_kv - 1) / queries_per_kv; };
    return {first_from(query_heads.begin), first_from(query_heads.end)};
  }
  // The KV head, counted from kv_heads.begin, that local query head `local_head` reads.
  std::size_t local_kv_of(std::size_t local_head) const {
    return (query_heads.begin + local_head) / queries_per_kv - kv_heads.begin;
  }
};

// Throws ConfigError if there are more ranks than query heads, or if the number of query heads is not a
// multiple of the number of KV heads.
HeadShard shard_heads(std::size_t num_attention_heads, std::size_t num_key_value_heads, TpRank tp);

// The input features of a feed-forward layer's second half that are summed as one where sums must not depend
// on the number of ranks: the most of 128, 64 and 32 of which there are at least as many as attention heads,
// so that every rank can own some, or 32; in toys 16, too. A function of the model alone. Without heads 0: no
// leaves.
std::size_t leaf_of(std::size_t in_features, std::size_t num_attention_heads);

// One rank's columns of a feed-forward layer, or rows of a vocabulary: whole leaves, if there are any; else
// boundaries are multiples of the kernels' tile width, or of a smaller power of two if there are too few
// tiles to divide evenly.
Range shard_columns(std::size_t total, TpRank tp, std::size_t leaf = 0);

}  // namespace tp
