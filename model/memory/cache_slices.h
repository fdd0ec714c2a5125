// The part of its host's KV cache that a rank owns.
#pragma once

#include "parallel/shard/host_heads.h"
#include "parallel/shard/shard.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

struct ModelSpec;

// A number of blocks of which ranks get equal parts without a remainder, to compute the sizes of parts.
inline constexpr std::size_t kNominalBlocks = 720720;  // least common multiple of 1 to 16

// The query heads of a host's ranks in one layer, in the order of ranks.
struct HostQueries {
  std::vector<std::size_t> kv_of_head{};  // [heads] the host's KV head that each head reads
  std::size_t first_head = 0;             // this rank's first head
};

struct CacheSlices {
  std::size_t rank = 0;                // the rank's index among the ranks of its host
  std::size_t ranks = 1;               // number of ranks of the host
  std::vector<HostHeads> layers{};     // empty: the rank keeps a private cache
  std::vector<HostQueries> queries{};  // [layers]
  std::size_t max_chosen = 0;          // positions that an indexer chooses; 0: there are no indexers

  // Whether several ranks read a KV head of the layer.
  bool are_shared(std::size_t layer) const { return !layers.empty() && layers[layer].are_shared(); }

  // Size of the rank's part of a layer, as a number of KV heads. `read`: number of heads that the rank reads.
  double owned_heads(std::size_t layer, std::size_t read) const {
    return layers.empty() ? static_cast<double>(read) : layers[layer].owned_heads(rank);
  }

  // The slices of these layers, for a cache of this many blocks. `host`: the ranks of the stage that share
  // memory with rank `tp`, ascending, including `tp.rank`. Without other ranks, the cache is private.
  static CacheSlices of(const ModelSpec& spec, Range layers, TpRank tp, std::span<const std::size_t> host,
                        std::size_t blocks);
};

// Whether the ranks of a host can keep one copy of the model's cache. They cannot if layers use the same
// memory one after the other.
bool can_share_cache(const ModelSpec& spec);

}  // namespace tp
