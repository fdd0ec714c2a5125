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

}  // namespace

void store_index_keys(TensorView<const float> key, std::span<const AttentionSpan> spans,
                      const PagedCache& cache) {
  if (key.empty()) return;
  const KvLayout& layout = cache.layout;
  for (const AttentionSpan& span : spans) {
    for (std::size_t token = 0; token < span.tokens; ++token) {
      const std::size_t position = span.start_position + token;
      const auto block = static_cast<std::size_t>(span.block_table[position / layout.block_size]);
      if (!cache.owns(block, 0)) continue;
      store_column(key.row(span.first_token + token), position % layout.block_size, layout,
                   cache.head(block, 0) + layout.index_offset());
    }
  }
}

std::size_t index_scratch(const KvLayout& layout, std::size_t tokens) {
  return layout.index_dim * kPanel * simd().index_panels + tokens * layout.padded_block();
}

void index_scores(const IndexQueries& tokens, const AttentionSpan& span, const PagedCache& cache,
                  TensorView<float> scratch, TensorView<float> scores) {
  const KvLayout& layout = cache.layout;
  const std::size_t size = layout.block_size;
  const std::size_t count = tokens.query.rows();
  const std::size_t blocks = (span.keys() + size - 1) / size;
  assert(scratch.columns() >= index_scratch(layout, count) && scores.columns() >= span.keys());
  for_thread_parts(blocks, blocks * size * tokens.query.size(), [&](std::size_t begin, std::size_t end) {
    float* const widened = scratch.row(static_cast<std::size_t>(omp_get_thread_num()));
    float* const of_block = widened + layout.index_dim * kPanel * simd().index_panels;
    for (std::size_t block = begin; block < end; ++block) {
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
           .widened = widened,
           .scores = of_block});
      const std::size_t positions = std::min(size, span.keys() - block * size);
      for (std::size_t i = 0; i < count; ++i)
        std::copy_n(of_block + i * layout.padded_block(), positions, scores.row(i) + block * size);
    }
  });
}

void choose_highest(std::span<const float> scores, std::span<float> scratch, std::span<std::int32_t> chosen) {
  if (chosen.empty()) return;
  assert(scores.size() >= chosen.size() && scratch.size() >= scores.size());
  static_assert(sizeof(std::uint32_t) == sizeof(float));
  const std::span ranks(reinterpret_cast<std::uint32_t*>(scratch.data()), scores.size());
  std::ranges::transform(scores, ranks.begin(), rank_of);
  const auto last = ranks.begin() + static_cast<std::ptrdiff_t>(chosen.size()) - 1;
  std::ranges::nth_element(ranks, last, std::greater<>());
  const std::uint32_t least = *last;
  // The number of chosen positions with the least score.
  auto equal = static_cast<std::size_t>(std::count(ranks.begin(), last + 1, least));
  std::size_t count = 0;
  for (std::size_t position = 0; count < chosen.size(); ++position) {
    const std::uint32_t rank = rank_of(scores[position]);
    if (rank < least || (rank == least && equal == 0)) continue;
    if (rank == least) --equal;
    chosen[count++] = static_cast<std::int32_t>(position);
  }
}

}  // namespace tp::kernels
