// A model's memory requirements, computed without loading it.
#pragma once

#include "model/layers/model.h"
#include "model/memory/cache_slices.h"
#include "model/weights/source/weight_source.h"
#include "runtime/setup/engine_setup.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tp {

// The memory that one or several ranks need, in bytes.
struct MemoryNeed {
  std::uint64_t weights = 0;
  std::uint64_t workspace = 0;
  std::uint64_t other = 0;   // an allowance for the tokenizer, messages and stacks
  std::uint64_t states = 0;  // states of recurrent layers and of canvases, for all sequences and snapshots
  std::uint64_t cache_block = 0;  // a block of the KV cache, in all layers of a group: this rank's part
  std::uint64_t whole_block = 0;  // address space of a block, with the parts of the host's other ranks
  std::uint64_t loading = 0;      // buffers while weights are loaded, before workspace and cache exist
  std::uint64_t adapters = 0;     // the part of `weights` that adapters have
  // Hash tables that stay in the checkpoint's files (MappedRows). The ranks of a stage on a host share one
  // copy in the page cache, which gives way to every other need. So a sum of needs has the largest tables.
  std::uint64_t tables = 0;

  // The peak with a cache of this many blocks.
  std::uint64_t with_blocks(std::uint64_t blocks) const {
    return weights + other + std::max(loading, workspace + states + blocks * cache_block);
  }
  MemoryNeed& operator+=(const MemoryNeed& more) {
    weights += more.weights;
    workspace += more.workspace;
    other += more.other;
    states += more.states;
    cache_block += more.cache_block;
    whole_block += more.whole_block;
    loading += more.loading;
    adapters += more.adapters;
    tables = std::max(tables, more.tables);
    return *this;
  }
};

class Footprint {
 public:
  // All references must outlive this object. `blocks`: the blocks of the cache, of which ranks may own
  // unequal parts.
  Footprint(const ModelSpec& spec, const EnginePlan& plan, const WeightSource& source,
            std::size_t blocks = kNominalBlocks)
      : spec_(spec), plan_(plan), source_(source), groups_(plan.cache_groups(spec)), blocks_(blocks) {}

  const CacheGroups& groups() const { return groups_; }

  // The memory that rank `tp` of a stage needs with the current number of OpenMP threads. `weights` overrides
  // the plan's in-memory weight type. The tables `others` need no memory. Throws like Model's constructor.
  MemoryNeed of(TpRank tp, std::optional<WeightType> weights = {}, Stage stage = {},
                const VocabTables& others = {}) const;

 private:
  const ModelSpec& spec_;
  const EnginePlan& plan_;
  const WeightSource& source_;
  CacheGroups groups_;
  std::size_t blocks_;
};

}  // namespace tp
