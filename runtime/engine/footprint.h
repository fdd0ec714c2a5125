// What a model takes of memory, known without loading it.
#pragma once

#include "model/layers/decoder.h"
#include "model/weights/checkpoint/weight_source.h"
#include "runtime/engine/engine_setup.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tp {

// What ranks take, in bytes.
struct MemoryNeed {
  std::uint64_t weights = 0;
  std::uint64_t workspace = 0;
  std::uint64_t other = 0;        // the tokenizer, messages, stacks: an allowance
  std::uint64_t cache_block = 0;  // a block of the KV cache, in all layers of a group

  std::uint64_t with_blocks(std::uint64_t blocks) const {
    return weights + workspace + other + blocks * cache_block;
  }
  MemoryNeed& operator+=(const MemoryNeed& more) {
    weights += more.weights;
    workspace += more.workspace;
    other += more.other;
    cache_block += more.cache_block;
    return *this;
  }
};

class Footprint {
 public:
  // All three must outlive it.
  Footprint(const DecoderSpec& spec, const EnginePlan& plan, const WeightSource& source)
      : spec_(spec), plan_(plan), source_(source), groups_(CacheGroups::of(spec)) {}

  const CacheGroups& groups() const { return groups_; }

  // Of the rank `tp`, with as many threads as OpenMP has here; with `weights` given, as if weights were
  // held in that type. Throws as the Decoder's constructor does.
  MemoryNeed of(TpRank tp, std::optional<WeightType> weights = {}) const;

 private:
  const DecoderSpec& spec_;
  const EnginePlan& plan_;
  const WeightSource& source_;
  CacheGroups groups_;
};

}  // namespace tp
