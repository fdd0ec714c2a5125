// The streams of AltUp around a block.
#pragma once

#include "model/layers/linear/norm.h"
#include "model/layers/linear/step_context.h"

#include <cstddef>

namespace tp {

// See AltUpSpec. A site for Residual::at, which is around a whole block. The matrices are small, so every
// rank has all of them, in float32.
class AltUp {
 public:
  // Throws ConfigError or CheckpointError.
  AltUp(WeightLoader& loader, const AltUpSpec& spec, std::size_t hidden_size, const AltUpNames& names);

  // Replaces streams by their predictions. Returns a copy of the first one, [tokens, hidden_size]. streams:
  // [tokens, streams * hidden_size]
  TensorView<float> enter(TensorView<float> streams, const StepContext& step) const;
  // Corrects the predictions by y, which the block has made of the first one. y: [tokens, hidden_size]
  void leave(TensorView<const float> y, const StepContext& step, TensorView<float> streams) const;

 private:
  // tanh(router(norm(x) / hidden_size)), times a matrix [rows, streams] -> [tokens, rows]
  TensorView<float> coefficients(TensorView<const float> x, const Buffer<float>& matrix, std::size_t rows,
                                 const StepContext& step) const;

  std::size_t streams_;
  std::size_t hidden_size_;
  Norm norm_;
  Buffer<float> router_;      // [streams, hidden_size]
  Buffer<float> prediction_;  // [streams * streams, streams]
  Buffer<float> correction_;  // [streams, streams]
};

}  // namespace tp
