#include "parallel/shard/shard.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tp {
namespace {

constexpr std::size_t kTileWidth = 32;
// With at least this many tiles per rank, the largest share exceeds the mean by at most an eighth.
constexpr std::size_t kTilesPerRank = 8;

}  // namespace

Range split_evenly(std::size_t total, TpRank tp, std::size_t granule) {
  const std::size_t granules = (total + granule - 1) / granule;
  const std::size_t each = granules / tp.size;
  const std::size_t extra = granules % tp.size;
  const auto start = [&](std::size_t rank) {
    return std::min(total, (rank * each + std::min(rank, extra)) * granule);
  };
  return {start(tp.rank), start(tp.rank + 1)};
}

Range split_by_weights(std::size_t total, TpRank tp, std::size_t granule) {
  if (tp.split.empty()) return split_evenly(total, tp, granule);
  const std::size_t granules = (total + granule - 1) / granule;
  const std::size_t min = granules < tp.size ? 0 : 1;
  const double sum = std::accumulate(tp.split.begin(), tp.split.end(), 0.0);
  double before = 0.0;
  Range part;  // in granules
  for (std::size_t rank = 0; rank <= tp.rank; ++rank) {
    before += tp.split[rank];
    // The first rank checks that all tensors are used, so it owns a part of everything.
    const std::size_t fewest = rank == 0 && granules != 0 ? 1 : min;
    const auto ideal = static_cast<std::size_t>(std::lround(static_cast<double>(granules) * before / sum));
    const std::size_t left = min * (tp.size - rank - 1);  // granules reserved for later ranks
    part = {part.end, std::clamp(ideal, part.end + fewest, granules - left)};
  }
  return {std::min(total, part.begin * granule), std::min(total, part.end * granule)};
}

HeadShard shard_heads(std::size_t num_attention_heads, std::size_t num_key_value_heads, TpRank tp) {
  require<ConfigError>(num_key_value_heads > 0 && num_attention_heads % num_key_value_heads == 0,
                       "num_attention_heads must be a multiple of num_key_value_heads, found {} and {}; "
                       "check config.json",
                       num_attention_heads, num_key_value_heads);
  require<ConfigError>(
      tp.size <= num_attention_heads,
      "cannot divide the model over {} ranks: it has {} attention heads, so at most {} ranks can each own "
      "one (mpirun -np {})",
      tp.size, num_attention_heads, num_attention_heads, num_attention_heads);
  return shard_heads_of_some(num_attention_heads, num_key_value_heads, tp);
}

HeadShard shard_heads_of_some(std::size_t num_heads, std::size_t num_key_heads, TpRank tp,
                              std::size_t granule) {
  const std::size_t group = num_heads / num_key_heads;
  const Range query = split_by_weights(num_heads, tp, num_heads / granule < tp.size ? 1 : granule);
  const std::size_t first = query.begin / group;
  return {query, {first, query.empty() ? first : (query.end + group - 1) / group}, group};
}

std::size_t leaf_of(std::size_t in_features, std::size_t num_attention_heads) {
  if (num_attention_heads == 0) return 0;
  constexpr std::size_t kToy = 512;
  const std::size_t min = in_features < kToy ? 16 : 32;
  std::size_t leaf = 128;
  while (leaf > min && in_features / leaf < num_attention_heads) leaf /= 2;
  return leaf;
}

Range shard_columns(std::size_t total, TpRank tp, std::size_t leaf) {
  if (leaf != 0) return split_by_weights(total, tp, leaf);
  std::size_t granule = kTileWidth;
  while (granule > 1 && total / granule < kTilesPerRank * tp.size) granule /= 2;
  return split_by_weights(total, tp, granule);
}

}  // namespace tp
