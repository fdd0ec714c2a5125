#include "model/kernels/attention.h"

#include "model/kernels/attention_scratch.h"
#include "model/kernels/attention_sight.h"
#include "model/kernels/simd/attention/attention_tile.h"
#include "model/kernels/simd/isa.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#include <omp.h>

namespace tp::kernels {
namespace {

// Tokens [first, last) of a span, and the query heads [head_begin, head_end), which read one KV head.
struct Tile {
  const AttentionSpan* span;
  std::size_t kv_head;
  std::size_t head_begin;
  std::size_t head_end;
  std::size_t first;
  std::size_t last;

  std::size_t heads() const { return head_end - head_begin; }
  std::size_t rows() const { return (last - first) * heads(); }
};

// Columns of latents that are multiplied as pairs must be a multiple of this.
constexpr std::size_t kPairColumns = 32;

// One call of paged_attention.
class Attention {
 public:
  explicit Attention(const AttentionArgs& args)
      : args_(args),
        layout_(args.cache.layout),
        kernel_(kernel()),
        largest_group_(largest_group(args.kv_of_head)) {
    tile_tokens_ = tokens_per_tile(largest_group_);
    for (const AttentionSpan& span : args.spans) {
      tiles_ += tiles_of(span);
      max_blocks_ = std::max(max_blocks_, span.block_table.size());
      const std::size_t near = args.pattern.reach().value_or(SIZE_MAX);
      sights_.emplace_back(args.pattern, span, layout_);
      const std::size_t far = sights_.back().far_splits().size() * kSplitPositions;
      const std::size_t seen = near < SIZE_MAX - far ? std::min(span.keys(), near + far) : span.keys();
      longest_ = std::max(longest_, seen);
      work_ += span.tokens * seen * args.query.columns();
    }
    assert(args.scratch.columns() >= attention_scratch(args.kv_of_head, layout_, max_blocks_));
  }

  void run() const {
    const auto threads = static_cast<std::size_t>(omp_get_max_threads());
    const std::size_t parts =
        std::min(threads / std::max<std::size_t>(tiles_, 1), longest_ / kSplitPositions);
    if (parts >= 2 && !omp_in_parallel()) {
      run_split();
    } else {
      run_whole();
    }
  }

 private:
  const Sight& sight(const Tile& tile) const {
    return sights_[static_cast<std::size_t>(tile.span - args_.spans.data())];
  }

  struct Heads {
    std::size_t begin;
    std::size_t end;
  };

  Heads group_of(std::size_t kv_head) const {
    const auto [begin, end] = std::equal_range(args_.kv_of_head.begin(), args_.kv_of_head.end(), kv_head);
    return {static_cast<std::size_t>(begin - args_.kv_of_head.begin()),
            static_cast<std::size_t>(end - args_.kv_of_head.begin())};
  }

  std::size_t tiles_of(const AttentionSpan& span) const {
    return (span.tokens + tile_tokens_ - 1) / tile_tokens_ * layout_.kv_heads;
  }

  Tile tile_of(const AttentionSpan& span, std::size_t index) const {
    const std::size_t kv_head = index % layout_.kv_heads;
    const Heads heads = group_of(kv_head);
    const std::size_t first = index / layout_.kv_heads * tile_tokens_;
    return {&span, kv_head, heads.begin, heads.end, first, std::min(first + tile_tokens_, span.tokens)};
  }

  Tile tile(std::size_t index) const {
    auto span = args_.spans.begin();
    for (; index >= tiles_of(*span); ++span) index -= tiles_of(*span);
    return tile_of(*span, index);
  }

  TileScratch scratch(std::size_t row) const {
    Carver carve(args_.scratch.row(row));
    return {carve, whole_tiles(tile_tokens_ * largest_group_), layout_, max_blocks_};
  }

  void run_whole() const {
#pragma omp parallel if (work_ >= kMinParallelWork)
    {
      const TileScratch own = scratch(static_cast<std::size_t>(omp_get_thread_num()));
      for (const AttentionSpan& span : args_.spans) {
        // Later tiles see more than earlier ones, so threads take the next free tile.
#pragma omp for schedule(dynamic) nowait
        for (std::size_t i = 0; i < tiles_of(span); ++i) {
          const Tile whole = tile_of(span, i);
          gather_rows(whole, own);
          clear_total(whole, own);
          const SeenSplits splits = splits_of(whole, own);
          for (std::size_t n = 0; n < splits.size(); ++n) {
            attend(whole, splits, n, n + 1, own);
            merge(own.split, whole.rows(), own.total);
          }
          write(whole, own.total);
        }
      }
    }
  }

  // Threads share the splits of each tile. A thread adds its result after all earlier splits have been added,
  // and then continues. Source: Dao et al., Flash-Decoding, 2023.
  void run_split() const {
    // With a window, tiles touch different numbers of splits.
    std::size_t most = 0;
    for (std::size_t i = 0; i < tiles_; ++i) {
      gather_rows(tile(i), scratch(i));
      clear_total(tile(i), scratch(i));
      most = std::max(most, splits_of(tile(i), scratch(i)).size());
    }
#pragma omp parallel
    {
      const TileScratch own = scratch(static_cast<std::size_t>(omp_get_thread_num()));
      const auto threads = static_cast<std::size_t>(omp_get_num_threads());
      // Distance to this thread's next split of the same tile; `most` if the next split belongs to another
      // tile.
      const std::size_t stride = threads % tiles_ == 0 ? threads / tiles_ : most;
#pragma omp for ordered schedule(static, 1)
      for (std::size_t i = 0; i < most * tiles_; ++i) {
        const Tile whole = tile(i % tiles_);
        const std::size_t n = i / tiles_;
        gather_rows(whole, own);
        const SeenSplits splits = splits_of(whole, own);
        if (n < splits.size()) attend(whole, splits, n, n + stride, own);
#pragma omp ordered
        if (n < splits.size()) merge(own.split, whole.rows(), scratch(i % tiles_).total);
      }
#pragma omp for schedule(static)
      for (std::size_t i = 0; i < tiles_; ++i) write(tile(i), scratch(i).total);
    }
  }

  // A row's query times the scale, padded with zeros like the keys.
  void gather_query(const float* query, float* out) const {
    const auto place = [&](std::size_t size, std::size_t padded) {
      for (std::size_t d = 0; d < size; ++d) out[d] = query[d] * args_.scale;
      std::fill(out + size, out + padded, 0.0F);
      query += size;
      out += padded;
    };
    const std::size_t values = layout_.latent ? layout_.value_columns() : 0;
    if (layout_.latent) place(layout_.value_dim, values);
    place(layout_.stored_key_dim(), query_stride(layout_) - values);
  }

  void gather_rows(const Tile& tile, const TileScratch& out) const {
    const Sight& seen = sight(tile);
    std::size_t row = 0;
    for (std::size_t token = tile.first; token < tile.last; ++token) {
      const std::size_t position = tile.span->start_position + token;
      const Places visible = seen.visible(position);
      const float* query = args_.query.row(tile.span->first_token + token);
      for (std::size_t head = tile.head_begin; head < tile.head_end; ++head, ++row) {
        gather_query(query + head * layout_.key_dim, out.query + row * query_stride(layout_));
        out.position[row] = position;
        out.visible_begin[row] = visible.begin;
        out.visible_end[row] = visible.end;
        if (!args_.alibi_slopes.empty()) out.slopes[row] = args_.alibi_slopes[head];
        if (!args_.relative_bias.empty())
          out.bias[row] = args_.relative_bias.data() + head * (2 * args_.bias_reach + 1);
        out.key_bias[row] = seen.sees_all(position) ? nullptr : tile.span->key_bias;
      }
    }
  }

  // The blocks of a tile's sequence that its rows may see by their patterns.
  Places blocks_of(const Tile& tile, const TileScratch& rows) const {
    const std::size_t count = tile.rows();
    const std::size_t begin = *std::min_element(rows.visible_begin, rows.visible_begin + count);
    const std::size_t end = *std::max_element(rows.visible_end, rows.visible_end + count);
    return {begin / layout_.block_size, (end + layout_.block_size - 1) / layout_.block_size};
  }

  // The splits of a tile's sequence that its rows may see. Split i consists of blocks_per_split blocks,
  // beginning at block i * blocks_per_split of the sequence.
  SeenSplits splits_of(const Tile& tile, const TileScratch& rows) const {
    const Places blocks = blocks_of(tile, rows);
    const std::size_t size = blocks_per_split(layout_);
    return {{blocks.begin / size, (blocks.end + size - 1) / size}, sight(tile).far_splits()};
  }

  // The blocks of one of these splits.
  Places blocks_of_split(const Tile& tile, std::size_t split, const TileScratch& rows) const {
    const std::size_t size = blocks_per_split(layout_);
    Places blocks = blocks_of(tile, rows);
    if (sight(tile).is_far(split))
      blocks = {0, (tile.span->keys() + layout_.block_size - 1) / layout_.block_size};
    return {std::max(blocks.begin, split * size), std::min(blocks.end, (split + 1) * size)};
  }

  void clear_total(const Tile& tile, const TileScratch& own) const {
    std::fill_n(own.total.maxima, tile.rows(), -INFINITY);
    std::fill_n(own.total.sums, tile.rows(), 0.0F);
    std::fill_n(own.total.out, tile.rows() * layout_.value_columns(), 0.0F);
  }

  // Computes the attention of the tile's rows, which must have been gathered, to a split. The thread
  // continues with split `next`, if it exists.
  void attend(const Tile& tile, const SeenSplits& splits, std::size_t n, std::size_t next,
              const TileScratch& own) const {
    const std::size_t split = splits[n];
    const auto [begin, end] = blocks_of_split(tile, split, own);
    const Places after = next < splits.size() ? blocks_of_split(tile, splits[next], own) : Places{0, 0};
    const std::size_t next_blocks = std::min(after.end - after.begin, blocks_per_step(layout_));
    const auto place = [&](std::size_t block) {
      return reinterpret_cast<const unsigned char*>(
          args_.cache.head(static_cast<std::size_t>(tile.span->block_table[block]), tile.kv_head));
    };
    for (std::size_t i = 0; i < end - begin; ++i) own.blocks[i] = place(begin + i);
    for (std::size_t i = 0; i < next_blocks; ++i) own.blocks[end - begin + i] = place(after.begin + i);
    kernel_({.rows = tile.rows(),
             .key_dim = layout_.key_dim,
             .value_columns = layout_.value_columns(),
             .row_columns = layout_.row_columns(),
             .query = own.query,
             .query_stride = query_stride(layout_),
             .blocks = own.blocks,
             .num_blocks = end - begin,
             .next_blocks = next_blocks,
             .blocks_ahead = blocks_ahead(layout_),
             .first_block = begin,
             .block_size = layout_.block_size,
             .padded_block = layout_.padded_block(),
             .key_panel_bytes = layout_.key_panel_bytes(),
             .values_offset = layout_.values_offset(),
             .key_scales_offset = layout_.key_scales_offset(),
             .value_scales_offset = layout_.value_scales_offset(),
             .blocks_per_step = blocks_per_step(layout_),
             .position = own.position,
             .visible_begin = own.visible_begin,
             .visible_end = own.visible_end,
             .key_bias = sight(tile).is_far(split) ? own.key_bias : nullptr,
             .has_key_bias = sight(tile).has_key_bias(),
             .context = tile.span->keys(),
             .softcap = args_.softcap.value_or(0.0F),
             .slopes = args_.alibi_slopes.empty() ? nullptr : own.slopes,
             .bias = args_.relative_bias.empty() ? nullptr : own.bias,
             .bias_reach = args_.bias_reach,
             .out = own.split.out,
             .maxima = own.split.maxima,
             .sums = own.split.sums,
             .scores = own.scores,
             .query_pairs = own.query_pairs,
             .weight_pairs = own.weight_pairs,
             .integer_rows = own.integer_rows,
             .widened = own.widened});
  }

  auto kernel() const -> void (*)(const AttentionTile&) {
    const AttentionKernels& kernels = attention_kernels();
    const bool has_pairs = kernels.bf16_pairs != nullptr && bf16_pairs_are_fast();
    const bool rows_fit_pairs = layout_.row_columns() % kPairColumns == 0;
    const bool values_fit_pairs = layout_.value_columns() % kPairColumns == 0;
    switch (layout_.type) {
      case KvType::f32:
        return layout_.latent ? kernels.latent_f32 : kernels.f32;
      case KvType::int8:
        if (layout_.latent)
          return has_pairs && rows_fit_pairs && values_fit_pairs ? kernels.latent_int8_pairs
                                                                 : kernels.latent_int8;
        return kernels.int8;
      default: {
        if (layout_.latent)
          return has_pairs && rows_fit_pairs ? kernels.latent_bf16_pairs : kernels.latent_bf16;
        if (tile_attention() != nullptr && fits_tiles()) return tile_attention();
        return has_pairs ? kernels.bf16_pairs : kernels.bf16;
      }
    }
  }

  // Whether keys and blocks are whole tiles of a matrix unit.
  bool fits_tiles() const {
    constexpr std::size_t kDepth = 32;
    return layout_.key_dim % kDepth == 0 && layout_.block_size % kDepth == 0;
  }

  // Adds the sums of a split to the sums of earlier splits.
  void merge(const SoftmaxSums& part, std::size_t rows, const SoftmaxSums& sum) const {
    const std::size_t columns = layout_.value_columns();
    for (std::size_t r = 0; r < rows; ++r) {
      if (part.sums[r] == 0.0F) continue;  // the row sees nothing in this split
      const float highest = std::max(sum.maxima[r], part.maxima[r]);
      const float old_weight = std::exp(sum.maxima[r] - highest);
      const float new_weight = std::exp(part.maxima[r] - highest);
      sum.maxima[r] = highest;
      sum.sums[r] = sum.sums[r] * old_weight + part.sums[r] * new_weight;
      for (std::size_t d = 0; d < columns; ++d) {
        float& value = sum.out[r * columns + d];
        value = value * old_weight + part.out[r * columns + d] * new_weight;
      }
    }
  }

  void write(const Tile& tile, const SoftmaxSums& sum) const {
    for (std::size_t row = 0; row < tile.rows(); ++row) {
      const std::size_t token = tile.first + row / tile.heads();
      const std::size_t head = tile.head_begin + row % tile.heads();
      const float of_sink = args_.sinks.empty() ? 0.0F : std::exp(args_.sinks[head] - sum.maxima[row]);
      const float inverse = 1.0F / (sum.sums[row] + of_sink);
      float* out = args_.out.row(tile.span->first_token + token) + head * layout_.value_dim;
      const float* weighted = sum.out + row * layout_.value_columns();
      for (std::size_t d = 0; d < layout_.value_dim; ++d) out[d] = weighted[d] * inverse;
    }
  }

  const AttentionArgs& args_;
  const KvLayout& layout_;
  void (*kernel_)(const AttentionTile&);  // chosen before threads begin, because choosing may throw
  std::size_t largest_group_;
  std::vector<Sight> sights_;  // one per span
  std::size_t tile_tokens_ = 1;
  std::size_t tiles_ = 0;
  std::size_t max_blocks_ = 0;
  std::size_t longest_ = 0;  // longest context that a token sees
  std::size_t work_ = 0;
};

}  // namespace

std::size_t attention_scratch(std::span<const std::size_t> kv_of_head, const KvLayout& layout,
                              std::size_t max_blocks) {
  Carver count(nullptr);
  TileScratch(count, std::max(kTileRows, whole_tiles(largest_group(kv_of_head))), layout, max_blocks);
  return count.used();
}

void paged_attention(const AttentionArgs& args) {
  if (!args.out.empty()) Attention(args).run();
}

}  // namespace tp::kernels
