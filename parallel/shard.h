// Who owns what: arithmetic only, no communication and no tensors.
//
// Every rank can compute every rank's share, so `tp-infer inspect` shows a plan without MPI and tests need
// none.
#pragma once

#include <cstddef>

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

  // The rank that holds what must be counted once, for example the bias of a row-parallel layer.
  bool is_first() const { return rank == 0; }
};

// Part `part.rank` of [0, total) in `part.size` contiguous parts of whole granules. The first parts get one
// granule more where they do not divide, and the last granule may be cut short by `total`. A part may be
// empty.
Range split_evenly(std::size_t total, TpRank part, std::size_t granule = 1);

// The attention heads of one rank: query heads are split evenly, and the rank holds every KV head that one of
// its query heads reads. Where the ranks divide num_key_value_heads these are whole KV groups; elsewhere a KV
// head is held by every rank that needs it.
struct HeadShard {
  Range query_heads;
  Range kv_heads;
  std::size_t queries_per_kv = 1;  // num_attention_heads / num_key_value_heads, of the whole model

  std::size_t local_heads() const { return query_heads.size(); }
  std::size_t local_kv_heads() const { return kv_heads.size(); }
  // The KV head, counted from kv_heads.begin, that local query head `local_head` reads.
  std::size_t local_kv_of(std::size_t local_head) const {
    return (query_heads.begin + local_head) / queries_per_kv - kv_heads.begin;
  }
};

// Throws ConfigError if there are more ranks than query heads, or if the query heads are no multiple of the
// KV heads.
HeadShard shard_heads(std::size_t num_attention_heads, std::size_t num_key_value_heads, TpRank part);

// The columns of a feed-forward layer, or the rows of a vocabulary, of one rank. They are cut at multiples of
// the kernels' tile width, or of a smaller power of two where tiles are too few to be shared out evenly.
Range shard_columns(std::size_t total, TpRank part);

}  // namespace tp
