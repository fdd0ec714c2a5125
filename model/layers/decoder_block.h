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

}  // namespace tp
