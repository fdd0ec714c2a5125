// Each rank's share of a model: arithmetic only, without communication or tensors.
//
// Each rank can compute every rank's share, so `tp-infer inspect` and the tests of this code don't need MPI.
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

// A rank of a tensor-parallel group.
struct TpRank {
  std::size_t rank = 0;
  std::size_t size = 1;
  // [size], the ranks' relative shares of the model, all positive. Empty: equal shares. Not owned: the
  // numbers must outlive this object.
  std::span<const double> split{};

  // Only the first rank adds values that must be added exactly once, such as a row-parallel layer's bias.
  bool is_first() const { return rank == 0; }
};

// Divides [0, total) into `tp.size` contiguous parts of whole granules, and returns part `tp.rank`. A granule
// is `granule` elements; the last granule may be smaller. If the granules don't divide evenly, the ones left
// over go to the first parts, one to each. A part may be empty.
Range split_evenly(std::size_t total, TpRank tp, std::size_t granule = 1);

// Like split_evenly, but in proportion to `tp.split` if it is not empty. Boundaries are rounded to the
// nearest granule. If there are at least as many granules as ranks, no part is empty. The first part is
// empty only if `total` is 0.
Range split_by_weights(std::size_t total, TpRank tp, std::size_t granule = 1);

// The attention heads of one rank. split_by_weights divides the query heads. A rank holds every KV head that
// any of its query heads reads. If several ranks share a group of query heads, each of these ranks holds the
// group's KV head.
struct HeadShard {
  Range query_heads;
  Range kv_heads;
  std::size_t queries_per_kv = 1;  // num_attention_heads / num_key_value_heads of the whole model

  std::size_t local_heads() const { return query_heads.size(); }
  std::size_t local_kv_heads() const { return kv_heads.size(); }
  // KV heads that this rank owns. A KV head's owner is the rank with its first query head, so that each KV
  // head is counted once.
  Range owned_kv_heads() const {
    const auto first_from = [&](std::size_t query) { return (query + queries_per_kv - 1) / queries_per_kv; };
    return {first_from(query_heads.begin), first_from(query_heads.end)};
  }
  // Index of the KV head that local query head `local_head` reads, counted from kv_heads.begin.
  std::size_t local_kv_of(std::size_t local_head) const {
    return (query_heads.begin + local_head) / queries_per_kv - kv_heads.begin;
  }
};

// Throws ConfigError if there are more ranks than query heads, or if the number of query heads is not a
// multiple of the number of KV heads.
HeadShard shard_heads(std::size_t num_attention_heads, std::size_t num_key_value_heads, TpRank tp);
// Like shard_heads, for layers that may have fewer heads than there are ranks: some ranks may have none.
// Ranks get whole granules of `granule` heads, unless there are fewer granules than ranks.
HeadShard shard_heads_of_some(std::size_t num_heads, std::size_t num_key_heads, TpRank tp,
                              std::size_t granule = 1);

// Input features per leaf of a row-parallel layer outside attention. If sums must not depend on the number of
// ranks, each leaf is summed as a unit. The leaf size depends only on the model. It is the largest of 128, 64
// and 32 (and 16, if in_features < 512) that gives at least num_attention_heads leaves, so that every rank
// can own a leaf. If no size gives enough leaves, the smallest is used. 0 (no leaves) for a model without
// heads.
std::size_t leaf_of(std::size_t in_features, std::size_t num_attention_heads);

// One rank's columns of a feed-forward layer, or its rows of a vocabulary matrix. Boundaries are multiples
// of `leaf`. If `leaf` is 0, they are multiples of the kernels' tile width, or of a smaller power of two if
// there are too few tiles for even shares.
Range shard_columns(std::size_t total, TpRank tp, std::size_t leaf = 0);

}  // namespace tp
