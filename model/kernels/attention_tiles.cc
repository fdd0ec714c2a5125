#include "model/kernels/attention_tiles.h"

#include "model/kernels/simd/isa.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace tp::kernels {
namespace {

// Columns of latents that are multiplied as pairs must be a multiple of this.
constexpr std::size_t kPairColumns = 32;

}  // namespace

TiledAttention::TiledAttention(const AttentionArgs& args)
    : args_(args),
      layout_(args.cache.layout),
      kernel_(kernel()),
      largest_group_(largest_group(args.kv_of_head)) {
  tile_tokens_ = tokens_per_tile(largest_group_);
  for (const AttentionSpan& span : args.spans) {
    tiles_ += tiles_of(span);
    max_blocks_ = std::max(max_blocks_, span.block_table.size());
    const std::size_t near = args.pattern.reach().value_or(SIZE_MAX);
    masks_.emplace_back(args.pattern, span, layout_);
    const std::size_t far = masks_.back().far_splits().size() * kSplitPositions;
    const std::size_t seen = near < SIZE_MAX - far ? std::min(span.keys(), near + far) : span.keys();
    longest_ = std::max(longest_, seen);
    work_ += span.tokens * seen * args.query.columns();
  }
  assert(args.scratch.columns() >= attention_scratch(args.kv_of_head, layout_, max_blocks_));
}

bool TiledAttention::is_worth_threads() const { return work_ >= kMinParallelWork; }

Tile TiledAttention::tile_of(const AttentionSpan& span, std::size_t index) const {
  const std::size_t kv_head = index % layout_.kv_heads;
  const auto [begin, end] = std::equal_range(args_.kv_of_head.begin(), args_.kv_of_head.end(), kv_head);
  const std::size_t first = index / layout_.kv_heads * tile_tokens_;
  return {&span,
          kv_head,
          static_cast<std::size_t>(begin - args_.kv_of_head.begin()),
          static_cast<std::size_t>(end - args_.kv_of_head.begin()),
          first,
          std::min(first + tile_tokens_, span.tokens)};
}

Tile TiledAttention::tile(std::size_t index) const {
  auto span = args_.spans.begin();
  for (; index >= tiles_of(*span); ++span) index -= tiles_of(*span);
  return tile_of(*span, index);
}

TileScratch TiledAttention::scratch(std::size_t row) const {
  Carver carve(args_.scratch.row(row));
  return {carve, whole_tiles(tile_tokens_ * largest_group_), layout_, max_blocks_};
}

// A row's query times the scale, padded with zeros like the keys.
void TiledAttention::gather_query(const float* query, float* out) const {
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

void TiledAttention::gather_rows(const Tile& tile, const TileScratch& out) const {
  const AttentionMask& seen = mask(tile);
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
Places TiledAttention::blocks_of(const Tile& tile, const TileScratch& rows) const {
  const std::size_t count = tile.rows();
  const std::size_t begin = *std::min_element(rows.visible_begin, rows.visible_begin + count);
  const std::size_t end = *std::max_element(rows.visible_end, rows.visible_end + count);
  return {begin / layout_.block_size, (end + layout_.block_size - 1) / layout_.block_size};
}

SeenSplits TiledAttention::splits_of(const Tile& tile, const TileScratch& rows) const {
  const Places blocks = blocks_of(tile, rows);
  const std::size_t size = blocks_per_split(layout_);
  return {{blocks.begin / size, (blocks.end + size - 1) / size}, mask(tile).far_splits()};
}

// The blocks of one of these splits.
Places TiledAttention::blocks_of_split(const Tile& tile, std::size_t split, const TileScratch& rows) const {
  const std::size_t size = blocks_per_split(layout_);
  Places blocks = blocks_of(tile, rows);
  if (mask(tile).is_far(split))
    blocks = {0, (tile.span->keys() + layout_.block_size - 1) / layout_.block_size};
  return {std::max(blocks.begin, split * size), std::min(blocks.end, (split + 1) * size)};
}

void TiledAttention::clear(const SoftmaxSums& sums, std::size_t rows) const {
  std::fill_n(sums.maxima, rows, -INFINITY);
  std::fill_n(sums.sums, rows, 0.0F);
  std::fill_n(sums.out, rows * layout_.value_columns(), 0.0F);
}

void TiledAttention::attend(const Tile& tile, const SeenSplits& splits, std::size_t n, std::size_t next,
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
           .latent_bytes = layout_.index_offset(),
           .blocks_per_step = blocks_per_step(layout_),
           .position = own.position,
           .visible_begin = own.visible_begin,
           .visible_end = own.visible_end,
           .key_bias = mask(tile).is_far(split) ? own.key_bias : nullptr,
           .has_key_bias = mask(tile).has_key_bias(),
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
           .widened = own.widened,
           .turned = own.turned});
}

TiledAttention::Kernel TiledAttention::kernel() const {
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
bool TiledAttention::fits_tiles() const {
  constexpr std::size_t kDepth = 32;
  return layout_.key_dim % kDepth == 0 && layout_.block_size % kDepth == 0;
}

void TiledAttention::merge(const SoftmaxSums& part, std::size_t rows, const SoftmaxSums& sum) const {
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

void TiledAttention::write_row(const SoftmaxSums& sum, std::size_t row, std::size_t token,
                               std::size_t head) const {
  const float of_sink = args_.sinks.empty() ? 0.0F : std::exp(args_.sinks[head] - sum.maxima[row]);
  const float inverse = 1.0F / (sum.sums[row] + of_sink);
  float* out = args_.out.row(token) + head * layout_.value_dim;
  const float* weighted = sum.out + row * layout_.value_columns();
  for (std::size_t d = 0; d < layout_.value_dim; ++d) out[d] = weighted[d] * inverse;
}

void TiledAttention::write(const Tile& tile, const SoftmaxSums& sum) const {
  for (std::size_t row = 0; row < tile.rows(); ++row)
    write_row(sum, row, tile.span->first_token + tile.first + row / tile.heads(),
              tile.head_begin + row % tile.heads());
}

}  // namespace tp::kernels
