#include "parallel/shard.h"

#include "tp/internal/require.h"

#include <algorithm>

namespace tp {
namespace {

constexpr std::size_t kTileWidth = 32;
// With at least this many tiles a rank, the largest share is at most an eighth above the mean.
constexpr std::size_t kTilesPerRank = 8;

}  // namespace

Range split_evenly(std::size_t total, TpRank part, std::size_t granule) {
  const std::size_t granules = (total + granule - 1) / granule;
  const std::size_t each = granules / part.size;
  const std::size_t extra = granules % part.size;
  const auto start = [&](std::size_t rank) {
    return std::min(total, (rank * each + std::min(rank, extra)) * granule);
  };
  return {start(part.rank), start(part.rank + 1)};
}

HeadShard shard_heads(std::size_t num_attention_heads, std::size_t num_key_value_heads, TpRank part) {
  require<ConfigError>(num_key_value_heads > 0 && num_attention_heads % num_key_value_heads == 0,
                       "num_attention_heads must be a multiple of num_key_value_heads, found {} and {}; "
                       "check config.json",
                       num_attention_heads, num_key_value_heads);
  require<ConfigError>(
      part.size <= num_attention_heads,
      "cannot divide the model over {} ranks: it has {} attention heads, so at most {} ranks can each own "
      "one (mpirun -np {})",
      part.size, num_attention_heads, num_attention_heads, num_attention_heads);
  const std::size_t group = num_attention_heads / num_key_value_heads;
  const Range query = split_evenly(num_attention_heads, part);
  return {query, {query.begin / group, (query.end + group - 1) / group}, group};
}

Range shard_columns(std::size_t total, TpRank part) {
  std::size_t granule = kTileWidth;
  while (granule > 1 && total / granule < kTilesPerRank * part.size) granule /= 2;
  return split_evenly(total, part, granule);
}

}  // namespace tp
