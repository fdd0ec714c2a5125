// Vectors that stand for pools of consecutive tokens.
#pragma once

#include "model/config/spec.h"
#include "model/config/tensor_names.h"
#include "model/layers/attention/open_pools.h"
#include "model/layers/linear/linear.h"
#include "model/layers/linear/norm.h"
#include "model/layers/linear/rope.h"
#include "model/layers/linear/step_context.h"
#include "model/weights/weight_loader.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// Makes a vector of each pool: see CompressedAttentionSpec. Every rank makes all vectors. The rows of open
// pools are a part of the layer's state.
class Compressor {
 public:
  // `size`: elements of a vector. `state_offset`: floats of the layer's state before this part. Throws
  // CheckpointError.
  Compressor(WeightLoader& loader, const CompressedAttentionSpec& spec, std::size_t size,
             const CompressorNames& names, std::size_t state_offset);

  // The rows of the hidden state's projection that the compressor reads: keys, then gates, if any.
  static std::vector<OwnedRows> down_rows(const CompressedAttentionSpec& spec, std::size_t size,
                                          std::size_t hidden_size, const CompressorNames& names);
  static std::size_t down_size(const CompressedAttentionSpec& spec, std::size_t size) {
    return (spec.has_gates() ? 2 : 1) * spec.series() * size;
  }

  struct Pool {
    const kernels::AttentionSpan* span = nullptr;
    std::size_t number = 0;  // in the span's sequence
  };
  // The pools that a batch closes, in the order of spans and positions.
  struct Pools {
    std::vector<Pool> pools{};
    // [pools, size], in the step's workspace, after the norm and before RoPE. A shape-only step has as many
    // rows as tokens, which is the most.
    TensorView<float> vectors{};
  };
  // Advances the state. raw: [tokens, down_size()]
  Pools close(TensorView<const float> raw, const StepContext& step) const;
  // Rotates the last elements of each pool's vector by its first position. x: [pools, at least rotary_dim]
  void rotate(const Pools& pools, TensorView<float> x, const StepContext& step) const;

  std::size_t state_floats() const { return pools_.state_floats(); }
  // Single positions are never open, so that there are no rows.
  std::optional<StatePart::Rows> state_rows() const {
    if (pools_.state_floats() == 0) return std::nullopt;
    return pools_.state_rows();
  }

 private:
  void sum_rows(const OpenPools::Closed& pool, float* out) const;

  std::size_t size_;
  std::size_t series_;
  bool has_gates_;
  std::size_t rotary_dim_;
  Rope rope_;
  Buffer<float> addends_;  // [pool, series * size], added to gates
  Norm norm_;              // [size]
  OpenPools pools_;
};

}  // namespace tp
