#include "model/memory/cache_slices.h"

#include "model/config/spec.h"

#include <algorithm>

namespace tp {
namespace {

// The KV heads whose keys and values the rank caches.
Range cached_heads(const AttentionPartSpec& part, TpRank tp) {
  if (is_recurrent(part)) return {};
  const HeadCounts counts = head_counts(part);
  return shard_heads(counts.heads, counts.kv_heads, tp).kv_heads;
}

}  // namespace

CacheSlices CacheSlices::of(const ModelSpec& spec, Range layers, TpRank tp, std::span<const std::size_t> host,
                            std::size_t blocks) {
  if (host.size() < 2) return {};
  CacheSlices slices{.rank = static_cast<std::size_t>(std::ranges::find(host, tp.rank) - host.begin())};
  for (std::size_t layer = layers.begin; layer < layers.end; ++layer) {
    std::vector<Range> read;
    for (const std::size_t rank : host)
      read.push_back(cached_heads(spec.blocks[layer].attention, {rank, tp.size, tp.split}));
    slices.layers.emplace_back(read, blocks);
  }
  return slices;
}

bool can_share_cache(const ModelSpec& spec) {
  return spec.encoder == nullptr && (!takes_whole_sequences(spec) || spec.keeps_sequences);
}

}  // namespace tp
