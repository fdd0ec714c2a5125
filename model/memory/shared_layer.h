// One layer's cache in memory that the ranks of a host share.
#pragma once

#include "model/kernels/paged_cache.h"
#include "model/memory/cache_slices.h"
#include "model/memory/top_lists.h"
#include "parallel/exchange/host_region.h"
#include "tp/tensor.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

struct SharedLayer {
  HostRegion* region = nullptr;
  kernels::PagedCache whole{};           // KV heads of all ranks; `owned`: the blocks of this rank
  const HostQueries* queries = nullptr;  // null: no KV head of the layer has several readers
  std::size_t owners = 1;                // largest number of owners of a KV head
  std::span<float> exchange{};           // shared by the ranks, for queries and partial results
  TensorView<float> scratch{};           // this rank's, see host_scratch(): [threads, floats]
  TopLists* lists = nullptr;  // lists of positions that indexers choose; null: there are no indexers
};

// Asks for huge pages for the blocks of this rank that the spans' tokens begin. Call it after keys and values
// were written.
void use_huge_pages(const SharedLayer& layer, std::span<const kernels::AttentionSpan> spans);

// Shared memory for queries and partial results, in floats: enough for tokens of four sequences of
// `max_blocks` blocks, or of more shorter sequences. `host_layouts`: of all KV heads of the host.
std::size_t exchange_floats(std::span<const kernels::KvLayout> host_layouts, const CacheSlices& slices,
                            std::size_t max_blocks);
// Memory of each thread for attention of all heads, or for the lists of a token, in floats.
std::size_t host_scratch(std::span<const kernels::KvLayout> host_layouts, const CacheSlices& slices,
                         std::size_t max_blocks);

}  // namespace tp
