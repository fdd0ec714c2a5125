#include "model/kernels/attention.h"

#include "model/kernels/simd/simd.h"
#include "model/threads.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <omp.h>

namespace tp::kernels {
namespace {

// Query rows of a tile: enough to reuse a block of keys while it is in the first-level cache.
constexpr std::size_t kTileRows = 16;

std::size_t tokens_per_tile(std::size_t group) { return std::max<std::size_t>(1, kTileRows / group); }

// The query heads [begin, end) that read one KV head.
struct HeadGroup {
  std::size_t kv_head;
  std::size_t begin;
  std::size_t end;
};

HeadGroup group_of(std::span<const std::size_t> kv_of_head, std::size_t kv_head) {
  const auto [begin, end] = std::equal_range(kv_of_head.begin(), kv_of_head.end(), kv_head);
  return {kv_head, static_cast<std::size_t>(begin - kv_of_head.begin()),
          static_cast<std::size_t>(end - kv_of_head.begin())};
}

// A thread's scratch, cut into the arrays that a tile needs.
struct TileScratch {
  float* query;
  float* out;
  float* scores;
  const float** key_blocks;
  const float** value_blocks;
  std::size_t* visible_begin;
  std::size_t* visible_end;

  TileScratch(float* memory, std::size_t rows, std::size_t head_dim, std::size_t max_blocks) {
    // Pointers first: the memory begins on a cache line and they need eight bytes.
    key_blocks = reinterpret_cast<const float**>(memory);
    value_blocks = key_blocks + max_blocks;
    visible_begin = reinterpret_cast<std::size_t*>(value_blocks + max_blocks);
    visible_end = visible_begin + rows;
    query = reinterpret_cast<float*>(visible_end + rows);
    out = query + rows * head_dim;
    scores = out + rows * head_dim;
  }
};

// Tokens [first, last) of a span with the query heads of one group.
void attend_tile(const AttentionArgs& args, const AttentionSpan& span, const HeadGroup& group,
                 std::size_t first, std::size_t last, const TileScratch& scratch) {
  const std::size_t head_dim = args.cache.head_dim;
  const std::size_t block_size = args.cache.block_size;
  const std::size_t heads = group.end - group.begin;
  const auto visible_from = [&](std::size_t position) {
    const std::size_t window = args.pattern.window.value_or(position + 1);
    return position + 1 - std::min(window, position + 1);
  };
  const auto visible_to = [&](std::size_t position) {
    return args.pattern.causal ? position + 1 : span.start_position + span.tokens;
  };

  std::size_t row = 0;
  for (std::size_t token = first; token < last; ++token) {
    const float* query = args.query.row(span.first_token + token) + group.begin * head_dim;
    std::memcpy(scratch.query + row * head_dim, query, heads * head_dim * sizeof(float));
    const std::size_t position = span.start_position + token;
    std::fill_n(scratch.visible_begin + row, heads, visible_from(position));
    std::fill_n(scratch.visible_end + row, heads, visible_to(position));
    row += heads;
  }

  const std::size_t first_block = visible_from(span.start_position + first) / block_size;
  const std::size_t end_block = (visible_to(span.start_position + last - 1) + block_size - 1) / block_size;
  for (std::size_t block = first_block; block < end_block; ++block) {
    const auto id = static_cast<std::size_t>(span.block_table[block]);
    scratch.key_blocks[block - first_block] = args.cache.keys(id, group.kv_head);
    scratch.value_blocks[block - first_block] = args.cache.values(id, group.kv_head);
  }
  simd().attention({scratch.query, row, head_dim, scratch.key_blocks, scratch.value_blocks,
                    end_block - first_block, block_size, first_block * block_size, scratch.visible_begin,
                    scratch.visible_end, args.scale, scratch.out, scratch.scores});

  for (std::size_t token = first; token < last; ++token) {
    std::memcpy(args.out.row(span.first_token + token) + group.begin * head_dim,
                scratch.out + (token - first) * heads * head_dim, heads * head_dim * sizeof(float));
  }
}

}  // namespace

// The pointers of TileScratch need eight bytes, and threads must not share a cache line.
std::size_t attention_scratch(std::size_t group, std::size_t head_dim, std::size_t block_size,
                              std::size_t max_blocks) {
  constexpr std::size_t kCacheLine = 16;  // floats
  // No smaller group fills more rows, so that the largest one suffices: 3 x 5 rows, but 2 x 8.
  const std::size_t rows = std::max(kTileRows, group);
  const std::size_t pointers = 2 * max_blocks + 2 * rows;
  const std::size_t floats = 2 * pointers + rows * (2 * head_dim + block_size + 2);
  return (floats + kCacheLine - 1) / kCacheLine * kCacheLine;
}

void paged_attention(const AttentionArgs& args) {
  const PagedCache& cache = args.cache;
  std::size_t largest_group = 1;
  for (std::size_t head = 0; head < cache.kv_heads; ++head) {
    const HeadGroup group = group_of(args.kv_of_head, head);
    largest_group = std::max(largest_group, group.end - group.begin);
  }
  const std::size_t tile_tokens = tokens_per_tile(largest_group);
  std::size_t max_blocks = 0;
  for (const AttentionSpan& span : args.spans) max_blocks = std::max(max_blocks, span.block_table.size());
  assert(args.scratch.columns() >=
         attention_scratch(largest_group, cache.head_dim, cache.block_size, max_blocks));

  std::size_t work = 0;
  for (const AttentionSpan& span : args.spans) {
    const std::size_t seen =
        std::min(span.start_position + span.tokens, args.pattern.window.value_or(SIZE_MAX));
    work += span.tokens * seen * args.query.columns();
  }
#pragma omp parallel if (work >= kWorthThreads)
  {
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const TileScratch scratch(args.scratch.row(thread), tile_tokens * largest_group, cache.head_dim,
                              max_blocks);
    for (const AttentionSpan& span : args.spans) {
      const std::size_t tiles = (span.tokens + tile_tokens - 1) / tile_tokens;
      // Late tiles see more than early ones, so threads take the next free one.
#pragma omp for schedule(dynamic) nowait
      for (std::size_t item = 0; item < tiles * cache.kv_heads; ++item) {
        const std::size_t first = item / cache.kv_heads * tile_tokens;
        attend_tile(args, span, group_of(args.kv_of_head, item % cache.kv_heads), first,
                    std::min(first + tile_tokens, span.tokens), scratch);
      }
    }
  }
}

void store_keys_values(TensorView<const float> key, TensorView<const float> value,
                       std::span<const AttentionSpan> spans, const PagedCache& cache) {
  for (const AttentionSpan& span : spans) {
#pragma omp parallel for schedule(static) if (span.tokens > 1 && span.tokens * key.columns() >= kWorthThreads)
    for (std::size_t token = 0; token < span.tokens; ++token) {
      const std::size_t position = span.start_position + token;
      const auto block = static_cast<std::size_t>(span.block_table[position / cache.block_size]);
      const std::size_t slot = position % cache.block_size;
      for (std::size_t head = 0; head < cache.kv_heads; ++head) {
        const float* k = key.row(span.first_token + token) + head * cache.head_dim;
        float* keys = cache.keys(block, head);
        for (std::size_t d = 0; d < cache.head_dim; ++d) keys[d * cache.block_size + slot] = k[d];
        std::memcpy(cache.values(block, head) + slot * cache.head_dim,
                    value.row(span.first_token + token) + head * cache.head_dim,
                    cache.head_dim * sizeof(float));
      }
    }
  }
}

}  // namespace tp::kernels
