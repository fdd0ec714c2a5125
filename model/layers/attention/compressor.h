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

  // The rows of the hidden state's projection that the compressor reads: keys, then gates.
  static std::vector<OwnedRows> down_rows(const CompressedAttentionSpec& spec, std::size_t size,
                                          std::size_t hidden_size, const CompressorNames& names);
  static std::size_t down_size(const CompressedAttentionSpec& spec, std::size_t size) {
    return 2 * spec.series() * size;
  }

  struct Pool {
    const kernels::AttentionSpan* span = nullptr;
    std::size_t number = 0;  // in the span's sequence
    const float* vector = nullptr;
  };
  // The pools that the batch closes, in the order of spans and positions. Advances the state. Vectors are in
  // the step's workspace. raw: [tokens, down_size()]
  std::vector<Pool> close(TensorView<const float> raw, const StepContext& step) const;

  std::size_t state_floats() const { return pools_.state_floats(); }
  StatePart::Rows state_rows() const { return pools_.state_rows(); }

 private:
  void sum_rows(const OpenPools::Closed& pool, float* out) const;

  std::size_t size_;
  std::size_t series_;
  std::size_t rotary_dim_;
  Rope rope_;
  Buffer<float> addends_;  // [pool, series * size]
  Norm norm_;              // [size]
  OpenPools pools_;
};

}  // namespace tp
