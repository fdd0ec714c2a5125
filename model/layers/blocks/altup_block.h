// A block with several streams, which runs on one of them.
#pragma once

#include "model/layers/blocks/altup.h"
#include "model/layers/blocks/residual.h"
#include "model/layers/blocks/sequential_block.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace tp {

// See AltUpSpec. The two all-reduces are those of the block that it contains.
class AltUpBlock {
 public:
  AltUpBlock(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size, const BlockNames& names);

  // Collective; throws CommError.
  void operator()(Residual& x, const StepContext& step, const kernels::PagedCache& cache) const;

  const AttentionPart& attention() const { return block_.attention(); }

 private:
  AltUp altup_;
  SequentialBlock block_;            // without the layer's input
  std::vector<float> output_scale_;  // [hidden_size], of the first stream as the layer input's gate reads it
  std::optional<LayerInput> layer_input_;
};

}  // namespace tp
