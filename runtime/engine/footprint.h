// What a model takes of memory, known without loading it.
#pragma once

#include "model/layers/decoder.h"
#include "model/weights/checkpoint/type_use.h"
#include "runtime/engine/engine_setup.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tp {

// What ranks take, in bytes.
struct MemoryNeed {
  std::uint64_t weights = 0;
  std::uint64_t workspace = 0;
  std::uint64_t other = 0;        // the tokenizer, messages, stacks: an allowance
  std::uint64_t cache_block = 0;  // a block of the KV cache, in all layers

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
  // `stored`: the types of the checkpoint's tensors, for weights that are held as they are stored; `threads`:
  // of a rank. `spec` must outlive it.
  Footprint(const DecoderSpec& spec, const EnginePlan& plan, const std::vector<TypeUse>& stored,
            std::size_t threads);

  // Of the rank `part`; with `weights` given, as if weights were held in that type.
  MemoryNeed of(TpRank part, std::optional<WeightType> weights = {}) const;

 private:
  const DecoderSpec& spec_;
  StepLimits limits_;
  std::vector<std::pair<WeightType, double>> shares_;  // of all weights, by the type they are held in
};

}  // namespace tp
