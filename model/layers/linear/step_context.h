#pragma once

#include "model/layers/linear/adapter_rows.h"
#include "model/layers/linear/batch.h"
#include "model/layers/linear/rope.h"
#include "model/memory/shared_layer.h"
#include "model/memory/state_cache.h"
#include "model/memory/workspace.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/tracer.h"
#include "parallel/shard/partial_sum.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

namespace tp {

class RelativeBias;

// Counts the sums over ranks that a shape-only step skips.
struct SumTally {
  std::size_t sums = 0;
  std::size_t bytes = 0;  // bytes of one rank's addends

  void add(std::size_t bytes_of_sum) {
    ++sums;
    bytes += bytes_of_sum;
  }
  SumTally operator-(const SumTally& less) const { return {sums - less.sums, bytes - less.bytes}; }
  SumTally& operator+=(const SumTally& more) {
    sums += more.sums;
    bytes += more.bytes;
    return *this;
  }
};

// Everything layers need to know about the current step.
struct StepContext {
  const Batch& batch;
  Workspace& workspace;
  std::span<const RopeAngles> ropes{};          // one per distinct RopeSpec in the model
  Tracer* tracer = nullptr;                     // null: no tracing
  std::size_t cache_group = 0;                  // the current layer's cache group
  LayerStates states{};                         // the current layer's states, if it is recurrent
  TensorView<const float> layer_input{};        // the current layer's own input, [tokens, size]
  Communicator* comm = nullptr;                 // null in shape-only steps
  const RelativeBias* relative_bias = nullptr;  // null: the model has none
  SumTally* tally = nullptr;                    // counts a shape-only step's sums; null: no counting
  // Room for the positions that indexers choose, integers in [tokens, the most of any indexer]. A layer that
  // shares an indexer finds the choice of an earlier layer here. Empty: no layer has an indexer.
  TensorView<float> chosen{};
  // Room for the blocks of candidates that an indexer chooses for the later ones, integers in [tokens,
  // blocks], ascending. Empty: the model has no candidates.
  TensorView<float> candidates{};
  // The first layer's values of this rank's heads, [tokens, local heads * head_dim], which later layers of
  // RWKV-7 read. Empty: the model has no such layers.
  TensorView<float> first_values{};
  // The current layer's cache on the whole host; null: the cache is private.
  const SharedLayer* shared_cache = nullptr;
  // The adapters of the rows that layers get; null in shape-only steps.
  const AdapterRows* adapters = nullptr;

  // Counts a sum over ranks that a shape-only step skips.
  void count_sum(const PartialSum& sum) const {
    if (tally != nullptr) tally->add(sum.bytes());
  }

  const RopeAngles& angles(const RopeSpec& spec) const {
    const auto found =
        std::ranges::find_if(ropes, [&](const RopeAngles& angles) { return *angles.spec == spec; });
    assert(found != ropes.end());
    return *found;
  }
  // Spans with the current layer's block tables.
  std::span<const kernels::AttentionSpan> spans() const { return batch.spans[cache_group]; }
};

// Writes the sum over ranks to `out`, which has the addend's shape. A shape-only step counts the sum instead.
// Throws CommError.
inline void sum_or_count(const StepContext& step, PartialSum sum, TensorView<float> out) {
  if (step.comm != nullptr)
    all_reduce(*step.comm, std::move(sum), out);
  else
    step.count_sum(sum);
}

}  // namespace tp
