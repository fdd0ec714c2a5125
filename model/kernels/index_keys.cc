#include "model/kernels/index_keys.h"

#include "model/kernels/half.h"
#include "model/kernels/simd/simd.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <functional>
#include <iterator>

#include <omp.h>

namespace tp::kernels {
namespace {

constexpr std::size_t kPanel = KvLayout::kPanel;

// Copies a key to its column, whose elements are kPanel apart.
void store_column(const float* key, std::size_t slot, const KvLayout& layout, std::byte* keys) {
  std::byte* const panel = keys + slot / kPanel * layout.index_panel_bytes();
  for (std::size_t d = 0; d < layout.index_dim; ++d) {
    const std::size_t place = d * kPanel + slot % kPanel;
    if (layout.type == KvType::f32)
      reinterpret_cast<float*>(panel)[place] = key[d];
    else
      reinterpret_cast<std::uint16_t*>(panel)[place] = float_to_bf16(key[d]);
  }
}

// An integer that is larger for a larger score. Zeros are equal, and NaN has a place, too.
std::uint32_t rank_of(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Positions are complemented, because earlier ones come first.
ScoredPosition scored(float score, std::size_t position) {
  return ScoredPosition{rank_of(score)} << 32 | ~static_cast<std::uint32_t>(position);
}

std::int32_t position_of(ScoredPosition scored) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(scored));
}

// Calls use(index) for the indices of the `count` highest scores, ascending.
template <class Use>
void for_highest(std::span<const float> scores, std::span<float> scratch, std::size_t count, const Use& use) {
  if (count == 0) return;
  assert(scores.size() >= count && scratch.size() >= scores.size());
  static_assert(sizeof(std::uint32_t) == sizeof(float));
  const std::span ranks(reinterpret_cast<std::uint32_t*>(scratch.data()), scores.size());
  std::ranges::transform(scores, ranks.begin(), rank_of);
  const auto last = ranks.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::ranges::nth_element(ranks, last, std::greater<>());
  const std::uint32_t min = *last;
  // The number of chosen scores that equal the least one.
  auto equal = static_cast<std::size_t>(std::count(ranks.begin(), last + 1, min));
  for (std::size_t index = 0; count > 0; ++index) {
    const std::uint32_t rank = rank_of(scores[index]);
    if (rank < min || (rank == min && equal == 0)) continue;
    if (rank == min) --equal;
    --count;
    use(index);
  }
}

}  // namespace

OwnedKeys::OwnedKeys(const AttentionSpan& span, const PagedCache& cache, const std::vector<bool>& wanted) {
  const KvLayout& layout = cache.layout;
  const std::size_t keys = span.keys() / layout.index_pool;
  for (std::size_t block = 0; layout.index_keys_before(block) < keys; ++block) {
    if (!cache.owns(static_cast<std::size_t>(span.block_table[block]), 0)) continue;
    if (!wanted.empty() && !wanted[block]) continue;
    blocks_.push_back({.index = block,
                       .begin = layout.index_keys_before(block),
                       .end = std::min(layout.index_keys_before(block + 1), keys),
                       .number = size_});
    size_ += blocks_.back().keys();
  }
}

std::size_t OwnedKeys::before(std::size_t key) const {
  const auto after = std::ranges::upper_bound(blocks_, key, {}, &Block::begin);
  if (after == blocks_.begin()) return 0;
  const Block& block = *std::prev(after);
  return block.number + std::min(key - block.begin, block.keys());
}

std::size_t OwnedKeys::key(std::size_t number) const {
  const Block& block = *std::prev(std::ranges::upper_bound(blocks_, number, {}, &Block::number));
  return block.begin + number - block.number;
}

void store_index_key(const float* key, std::size_t number, std::span<const std::int32_t> block_table,
                     const PagedCache& cache) {
  const KvLayout& layout = cache.layout;
  const std::size_t index = layout.block_of_index_key(number);
  const auto block = static_cast<std::size_t>(block_table[index]);
  for (std::size_t head = 0; head < layout.kv_heads; ++head) {
    if (!cache.owns(block, head)) continue;
    store_column(key, number - layout.index_keys_before(index), layout,
                 cache.head(block, head) + layout.index_offset());
  }
}

void store_index_keys(TensorView<const float> key, std::span<const AttentionSpan> spans,
                      const PagedCache& cache) {
  assert(cache.layout.index_pool == 1);
  if (key.empty()) return;
  for (const AttentionSpan& span : spans) {
    for (std::size_t token = 0; token < span.tokens; ++token)
      store_index_key(key.row(span.first_token + token), span.start_position + token, span.block_table,
                      cache);
  }
}

void pool_by_gates(std::span<const GatedRow> rows, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto gate = [&](const GatedRow& row) { return row.gate[i] + row.addend[i]; };
    float highest = gate(rows.front());
    for (const GatedRow& row : rows.subspan(1)) highest = std::max(highest, gate(row));
    float sum = 0.0F;
    float weighted = 0.0F;
    for (const GatedRow& row : rows) {
      const float weight = std::exp(gate(row) - highest);
      sum += weight;
      weighted += weight * row.key[i];
    }
    out[i] = weighted / sum;
  }
}

std::size_t index_scratch(const KvLayout& layout, std::size_t tokens) {
  return kPanel * (layout.index_dim * simd().index_panels + tokens * layout.index_panels());
}

void index_scores(const IndexQueries& tokens, const AttentionSpan& span, const OwnedKeys& owned,
                  const PagedCache& cache, TensorView<float> scratch, TensorView<float> scores) {
  const KvLayout& layout = cache.layout;
  const std::size_t columns = kPanel * layout.index_panels();
  const std::size_t count = tokens.query.rows();
  const std::size_t blocks = owned.blocks().size();
  assert(scratch.columns() >= index_scratch(layout, count));
  assert(scores.columns() >= owned.size());
  for_thread_parts(blocks, blocks * columns * tokens.query.size(), [&](std::size_t begin, std::size_t end) {
    float* const widened = scratch.row(static_cast<std::size_t>(omp_get_thread_num()));
    float* const of_block = widened + layout.index_dim * kPanel * simd().index_panels;
    for (std::size_t i = begin; i < end; ++i) {
      const OwnedKeys::Block& block = owned.blocks()[i];
      const auto place = static_cast<std::size_t>(span.block_table[block.index]);
      simd().index_scores(
          {.keys = reinterpret_cast<const unsigned char*>(cache.head(place, 0) + layout.index_offset()),
           .panels = layout.index_panels(),
           .dim = layout.index_dim,
           .is_bf16 = layout.type != KvType::f32,
           .query = tokens.query.data(),
           .query_stride = tokens.query.stride(),
           .weight = tokens.weight.data(),
           .weight_stride = tokens.weight.stride(),
           .tokens = count,
           .heads = tokens.weight.columns(),
           .rectified = tokens.rectified,
           .widened = widened,
           .scores = of_block});
      for (std::size_t token = 0; token < count; ++token)
        std::copy_n(of_block + token * columns, block.keys(), scores.row(token) + block.number);
    }
  });
}

void choose_highest(std::span<const float> scores, std::span<float> scratch, std::span<std::int32_t> chosen) {
  auto next = chosen.begin();
  for_highest(scores, scratch, chosen.size(),
              [&](std::size_t index) { *next++ = static_cast<std::int32_t>(index); });
}

void list_highest(std::span<const float> scores, const OwnedKeys& owned, std::span<float> scratch,
                  std::span<ScoredPosition> list) {
  auto next = list.begin();
  for_highest(scores, scratch, std::min(list.size(), scores.size()),
              [&](std::size_t index) { *next++ = scored(scores[index], owned.key(index)); });
  std::fill(next, list.end(), ScoredPosition{0});
}

void merge_highest(std::span<const std::span<const ScoredPosition>> lists, std::span<ScoredPosition> scratch,
                   std::span<std::int32_t> chosen) {
  if (chosen.empty()) return;
  auto end = scratch.begin();
  for (const auto& list : lists) end = std::ranges::copy(list, end).out;
  const auto last = scratch.begin() + static_cast<std::ptrdiff_t>(chosen.size()) - 1;
  std::nth_element(scratch.begin(), last, end, std::greater<>());
  assert(*last != 0);
  auto next = chosen.begin();
  for (const auto& list : lists) {
    const auto first = next;
    for (const ScoredPosition candidate : list) {
      if (candidate >= *last) *next++ = position_of(candidate);
    }
    std::inplace_merge(chosen.begin(), first, next);
  }
}

}  // namespace tp::kernels
