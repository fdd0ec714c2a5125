// This rank's parts of stored prompts, and their places in the cache. The parts follow from the model alone,
// so ranks in any number read what others have written.
#pragma once

#include "model/config/spec.h"
#include "model/memory/cache_groups.h"
#include "model/memory/kv_cache.h"
#include "model/memory/state_cache.h"
#include "parallel/shard/shard.h"
#include "runtime/store/files/run_file.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tp {

// One head of the layers of one class, in this rank's cache.
struct CachePart {
  // Keys and values of one layer.
  struct Keys {
    std::size_t group = 0;  // group of the layer's blocks
    const kernels::PagedCache* cache = nullptr;
    std::size_t head = 0;  // this rank's number of the KV head
  };
  // The state of one layer.
  struct State {
    LayerStates states{};
    std::vector<StatePart::Rows> rows;
  };

  StoredKind kind = StoredKind::keys_and_values;
  std::size_t layers = 0;  // class of layers
  std::size_t head = 0;    // global head
  bool writes = true;      // false: another rank on this host writes the part
  std::vector<Keys> keys{};
  std::vector<State> states{};

  // "k0h3"
  std::string name() const;
  // Bytes of the values of the run's blocks from `first` on, or of its state. `groups`: number of the cache's
  // groups.
  std::size_t bytes(const StoredRun& run, std::size_t groups, std::size_t first = 0) const;
};

// All parts of this rank, keys and values first. `states`: Model::state_parts. `before`: the lower ranks on
// this host, which write the KV heads that they hold, too. The cache must outlive the result. The first part
// of rank 0 is head 0 of the layers with the widest window. It exists even if no layer has keys and values.
std::vector<CachePart> parts_of(const ModelSpec& spec, TpRank tp, const KvCache& cache,
                                const std::vector<std::vector<StatePart>>& states,
                                std::span<const std::size_t> before = {});

// The names of rank 0's parts that stand for all parts of a run or state. If one exists, so do the others,
// except by accident; files of layers with narrower windows may lack their first blocks.
std::vector<std::string> indexed_parts(const std::vector<CachePart>& parts);

// The window of the layers with the widest window.
CacheWindow widest_window(const ModelSpec& spec);

// Most blocks per run: those of one split of attention.
std::size_t blocks_per_run(std::size_t block_size);

// Indices of blocks of a run. complete_from: from here on, the run has all blocks of this part; blocks before
// may have left a window. wanted_from: the first block that this rank writes to the cache. If there is none,
// the number of blocks.
std::size_t complete_from(const CachePart& part, const StoredRun& run, std::size_t groups);
std::size_t wanted_from(const CachePart& part, const StoredRun& run, std::size_t groups);

// Copy the run's part of the cache to the values of a file, or back, from the block `first` on. copy_to_cache
// skips kNoBlock, and blocks that other ranks of the host write. `values`: [part.bytes(run, groups, first)].
void copy_from_cache(const CachePart& part, const StoredRun& run, std::size_t groups, std::size_t first,
                     std::span<std::byte> values);
void copy_to_cache(const CachePart& part, const StoredRun& run, std::size_t groups, std::size_t first,
                   std::span<const std::byte> values);

}  // namespace tp
