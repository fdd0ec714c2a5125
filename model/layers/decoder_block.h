// One layer of the decoder. How its parts are wired is a matter of its class.
#pragma once

#include "model/layers/parallel_residual_block.h"
#include "model/layers/sequential_block.h"

#include <cstddef>
#include <variant>

namespace tp {

using DecoderBlock = std::variant<SequentialBlock, ParallelResidualBlock>;

// Throws ConfigError or CheckpointError.
DecoderBlock load_block(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                        const BlockNames& names);

// What one rank holds of a block.
LocalShapes local_shapes(const BlockSpec& spec, std::size_t hidden_size, TpRank part);

// What one rank caches of a block's attention. Throws ConfigError if there are more ranks than heads.
kernels::KvLayout kv_layout(const AttentionPartSpec& spec, TpRank part, KvType type, std::size_t block_size);

// How large a step can be; the workspace follows from it.
struct StepLimits {
  std::size_t tokens = 0;   // in a batch
  std::size_t outputs = 0;  // rows of logits in a batch
  std::size_t threads = 1;
  KvType kv_type = KvType::f32;
  std::size_t block_size = 0;  // of the cache, in tokens
  std::size_t max_blocks = 0;  // of one sequence
};

// Floats of workspace that a block needs at once for the largest step.
std::size_t block_workspace(const BlockSpec& spec, std::size_t hidden_size, TpRank part,
                            const StepLimits& limits);

}  // namespace tp
