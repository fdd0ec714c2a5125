#include "model/memory/shared_layer.h"

#include "model/kernels/attention.h"
#include "model/kernels/split_attention.h"

#include <algorithm>

namespace tp {

void use_huge_pages(const SharedLayer& layer, std::span<const kernels::AttentionSpan> spans) {
  const kernels::PagedCache& cache = layer.whole;
  const std::size_t block_size = cache.layout.block_size;
  for (const kernels::AttentionSpan& span : spans) {
    const std::size_t first = (span.start_position + block_size - 1) / block_size;
    for (std::size_t i = first; i * block_size < span.start_position + span.tokens; ++i) {
      const auto block = static_cast<std::size_t>(span.block_table[i]);
      for (std::size_t head = 0; head < cache.layout.kv_heads; ++head) {
        if (cache.owns(block, head))
          layer.region->use_huge_pages(cache.head(block, head), cache.layout.head_bytes());
      }
    }
  }
}

std::size_t exchange_floats(std::span<const kernels::KvLayout> host_layouts, const CacheSlices& slices,
                            std::size_t max_blocks) {
  constexpr std::size_t kLines = 64;  // for arrays that begin on cache lines
  constexpr std::size_t kSequences = 4;
  std::size_t max = 0;
  for (std::size_t layer = 0; layer < slices.layers.size(); ++layer) {
    if (!slices.are_shared(layer)) continue;
    const kernels::KvLayout& layout = host_layouts[layer];
    const kernels::AttentionSpan longest{
        .tokens = 1, .block_table = {}, .context = max_blocks * layout.block_size};
    const std::vector<std::size_t>& kv_of_head = slices.queries[layer].kv_of_head;
    max = std::max(max, kernels::split_results(longest, kv_of_head, layout) + kLines +
                            kv_of_head.size() * (layout.key_dim + 1));
  }
  return kSequences * max;
}

std::size_t host_scratch(std::span<const kernels::KvLayout> host_layouts, const CacheSlices& slices,
                         std::size_t max_blocks) {
  std::size_t max = slices.ranks * slices.max_chosen * sizeof(kernels::ScoredPosition) / sizeof(float);
  for (std::size_t layer = 0; layer < slices.layers.size(); ++layer) {
    if (slices.are_shared(layer))
      max = std::max(
          max, kernels::attention_scratch(slices.queries[layer].kv_of_head, host_layouts[layer], max_blocks));
  }
  return max;
}

}  // namespace tp
