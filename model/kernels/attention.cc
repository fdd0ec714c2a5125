#include "model/kernels/attention.h"

#include "model/kernels/attention_scratch.h"
#include "model/kernels/attention_tiles.h"

#include <algorithm>

#include <omp.h>

namespace tp::kernels {
namespace {

void run_whole(const TiledAttention& attention) {
#pragma omp parallel if (attention.is_worth_threads())
  {
    const TileScratch own = attention.scratch(static_cast<std::size_t>(omp_get_thread_num()));
    for (const AttentionSpan& span : attention.args().spans) {
      // Later tiles see more than earlier ones, so threads take the next free tile.
#pragma omp for schedule(dynamic) nowait
      for (std::size_t i = 0; i < attention.tiles_of(span); ++i) {
        const Tile whole = attention.tile_of(span, i);
        attention.gather_rows(whole, own);
        attention.clear(own.total, whole.rows());
        const SeenSplits splits = attention.splits_of(whole, own);
        for (std::size_t n = 0; n < splits.size(); ++n) {
          attention.attend(whole, splits, n, n + 1, own);
          attention.merge(own.split, whole.rows(), own.total);
        }
        attention.write(whole, own.total);
      }
    }
  }
}

// Threads share the splits of each tile. A thread adds its result after all earlier splits have been added,
// and then continues. Source: Dao et al., Flash-Decoding, 2023.
void run_split(const TiledAttention& attention) {
  // With a window, tiles touch different numbers of splits.
  std::size_t max = 0;
  for (std::size_t i = 0; i < attention.tiles(); ++i) {
    attention.gather_rows(attention.tile(i), attention.scratch(i));
    attention.clear(attention.scratch(i).total, attention.tile(i).rows());
    max = std::max(max, attention.splits_of(attention.tile(i), attention.scratch(i)).size());
  }
#pragma omp parallel
  {
    const TileScratch own = attention.scratch(static_cast<std::size_t>(omp_get_thread_num()));
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    // Distance to this thread's next split of the same tile; `max` if the next split belongs to another
    // tile.
    const std::size_t stride = threads % attention.tiles() == 0 ? threads / attention.tiles() : max;
#pragma omp for ordered schedule(static, 1)
    for (std::size_t i = 0; i < max * attention.tiles(); ++i) {
      const Tile whole = attention.tile(i % attention.tiles());
      const std::size_t n = i / attention.tiles();
      attention.gather_rows(whole, own);
      const SeenSplits splits = attention.splits_of(whole, own);
      if (n < splits.size()) attention.attend(whole, splits, n, n + stride, own);
#pragma omp ordered
      if (n < splits.size())
        attention.merge(own.split, whole.rows(), attention.scratch(i % attention.tiles()).total);
    }
#pragma omp for schedule(static)
    for (std::size_t i = 0; i < attention.tiles(); ++i)
      attention.write(attention.tile(i), attention.scratch(i).total);
  }
}

}  // namespace

std::size_t attention_scratch(std::span<const std::size_t> kv_of_head, const KvLayout& layout,
                              std::size_t max_blocks) {
  Carver count(nullptr);
  TileScratch(count, std::max(kTileRows, whole_tiles(largest_group(kv_of_head))), layout, max_blocks);
  return count.used();
}

void paged_attention(const AttentionArgs& args) {
  if (args.out.empty()) return;
  const TiledAttention attention(args);
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t parts =
      std::min(threads / std::max<std::size_t>(attention.tiles(), 1), attention.longest() / kSplitPositions);
  if (parts >= 2 && !omp_in_parallel()) {
    run_split(attention);
  } else {
    run_whole(attention);
  }
}

}  // namespace tp::kernels
