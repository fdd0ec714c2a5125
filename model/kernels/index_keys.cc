#include "model/kernels/index_keys.h"

#include "model/kernels/half.h"
#include "model/kernels/simd/simd.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>

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
  const std::uint32_t least = *last;
  // The number of chosen scores that equal the least one.
  auto equal = static_cast<std::size_t>(std::count(ranks.begin(), last + 1, least));
  for (std::size_t index = 0; count > 0; ++index) {
    const std::uint32_t rank = rank_of(scores[index]);
    if (rank < least || (rank == least && equal == 0)) continue;
    if (rank == least) --equal;
    --count;
    use(index);
  }
}

}  // namespace

OwnedPositions::OwnedPositions(const AttentionSpan& span, const PagedCache& cache)
    : block_size_(cache.layout.block_size) {
  for (std::size_t block = 0; block * block_size_ < span.keys(); ++block) {
    if (cache.owns(static_cast<std::size_t>(span.block_table[block]), 0)) blocks_.push_back(block);
  }
}

std::size_t OwnedPositions::before(std::size_t position) const {
  const std::size_t block = position / block_size_;
  const auto found = std::ranges::lower_bound(blocks_, block);
  const auto whole = static_cast<std::size_t>(found - blocks_.begin()) * block_size_;
  return found != blocks_.end() && *found == block ? whole + position % block_size_ : whole;
}

void store_index_keys(TensorView<const float> key, std::span<const AttentionSpan> spans,
                      const PagedCache& cache) {
  if (key.empty()) return;
  const KvLayout& layout = cache.layout;
  for (const AttentionSpan& span : spans) {
    for (std::size_t token = 0; token < span.tokens; ++token) {
      const std::size_t position = span.start_position + token;
      const auto block = static_cast<std::size_t>(span.block_table[position / layout.block_size]);
      for (std::size_t head = 0; head < layout.kv_heads; ++head) {
        if (!cache.owns(block, head)) continue;
        store_column(key.row(span.first_token + token), position % layout.block_size, layout,
                     cache.head(block, head) + layout.index_offset());
      }
    }
  }
}

std::size_t index_scratch(const KvLayout& layout, std::size_t tokens) {
  return layout.index_dim * kPanel * simd().index_panels + tokens * layout.padded_block();
}

void index_scores(const IndexQueries& tokens, const AttentionSpan& span, const OwnedPositions& owned,
                  const PagedCache& cache, TensorView<float> scratch, TensorView<float> scores) {
  const KvLayout& layout = cache.layout;
  const std::size_t size = layout.block_size;
  const std::size_t count = tokens.query.rows();
  const std::size_t blocks = owned.blocks().size();
  assert(scratch.columns() >= index_scratch(layout, count));
  assert(scores.columns() >= owned.before(span.keys()));
  for_thread_parts(blocks, blocks * size * tokens.query.size(), [&](std::size_t begin, std::size_t end) {
    float* const widened = scratch.row(static_cast<std::size_t>(omp_get_thread_num()));
    float* const of_block = widened + layout.index_dim * kPanel * simd().index_panels;
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t block = owned.blocks()[i];
      const auto place = static_cast<std::size_t>(span.block_table[block]);
      simd().index_scores(
          {.keys = reinterpret_cast<const unsigned char*>(cache.head(place, 0) + layout.index_offset()),
           .panels = layout.panels(),
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
      const std::size_t positions = std::min(size, span.keys() - block * size);
      for (std::size_t token = 0; token < count; ++token)
        std::copy_n(of_block + token * layout.padded_block(), positions, scores.row(token) + i * size);
    }
  });
}

void choose_highest(std::span<const float> scores, std::span<float> scratch, std::span<std::int32_t> chosen) {
  auto next = chosen.begin();
  for_highest(scores, scratch, chosen.size(),
              [&](std::size_t index) { *next++ = static_cast<std::int32_t>(index); });
}

void list_highest(std::span<const float> scores, const OwnedPositions& owned, std::span<float> scratch,
                  std::span<ScoredPosition> list) {
  auto next = list.begin();
  for_highest(scores, scratch, std::min(list.size(), scores.size()),
              [&](std::size_t index) { *next++ = scored(scores[index], owned.position(index)); });
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
