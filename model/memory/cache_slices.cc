#include "model/memory/cache_slices.h"

#include "model/config/spec.h"

#include <algorithm>

namespace tp {
namespace {

// The heads whose keys and values the rank caches; none in layers without a cache.
HeadShard cached_heads(const BlockSpec& block, TpRank tp) {
  if (!keeps_keys(block)) return {};
  const HeadCounts counts = head_counts(block.attention);
  return shard_heads(counts.heads, counts.kv_heads, tp);
}

HostQueries queries_of(const HostHeads& heads, std::span<const HeadShard> shards, std::size_t rank) {
  HostQueries queries;
  for (std::size_t other = 0; other < shards.size(); ++other) {
    if (other == rank) queries.first_head = queries.kv_of_head.size();
    for (std::size_t head = 0; head < shards[other].local_heads(); ++head)
      queries.kv_of_head.push_back(heads.read_by(other).begin + shards[other].local_kv_of(head));
  }
  return queries;
}

}  // namespace

CacheSlices CacheSlices::of(const ModelSpec& spec, Range layers, TpRank tp, std::span<const std::size_t> host,
                            std::size_t blocks) {
  if (host.size() < 2) return {};
  CacheSlices slices{.rank = static_cast<std::size_t>(std::ranges::find(host, tp.rank) - host.begin()),
                     .ranks = host.size(),
                     .max_chosen = tp::max_chosen(spec)};
  for (std::size_t layer = layers.begin; layer < layers.end; ++layer) {
    std::vector<HeadShard> shards;
    std::vector<Range> read;
    for (const std::size_t rank : host) {
      shards.push_back(cached_heads(spec.blocks[layer], {rank, tp.size, tp.split}));
      read.push_back(shards.back().kv_heads);
    }
    slices.layers.emplace_back(read, blocks);
    slices.queries.push_back(queries_of(slices.layers.back(), shards, slices.rank));
  }
  return slices;
}

bool can_share_cache(const ModelSpec& spec) {
  return spec.encoder == nullptr && (!takes_whole_sequences(spec) || spec.keeps_sequences);
}

}  // namespace tp
