// The KV heads that the ranks of one host cache together: arithmetic only.
#pragma once

#include "parallel/shard/shard.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// A host keeps one copy of each KV head that its ranks read. Each block of a head's cache has one owner among
// the head's readers: the rank that writes the block. Ranks are numbered within the host, and heads by their
// order among the host's heads.
class HostHeads {
 public:
  // `read`: [ranks] the KV heads of the model that each rank reads, in ascending order. `blocks`: the blocks
  // of the cache.
  HostHeads(std::span<const Range> read, std::size_t blocks);

  // Number of distinct heads.
  std::size_t heads() const { return heads_; }
  // The heads that the rank reads.
  Range read_by(std::size_t rank) const { return read_[rank]; }
  // Whether several ranks read a head.
  bool are_shared() const;
  // The blocks of a head that the rank owns. The ranks' numbers of blocks, over all heads, are as equal as
  // the readers of the heads allow.
  Range owned_by(std::size_t rank, std::size_t head) const;
  // The size of the rank's part, as a number of heads: 1.5 is the size of one and a half heads' caches.
  double owned_heads(std::size_t rank) const;
  // Number of ranks that own blocks of the head.
  std::size_t owners_of(std::size_t head) const;

 private:
  std::size_t blocks_;
  std::size_t heads_ = 0;
  std::vector<Range> read_;  // [ranks]
  // [ranks + 1]: rank r owns [bounds_[r], bounds_[r + 1]) if the blocks of all heads are numbered head by
  // head.
  std::vector<std::size_t> bounds_;
};

}  // namespace tp
