// One block of the decoder. A block's class determines how its parts are connected.
#pragma once

#include "model/layers/blocks/altup_block.h"
#include "model/layers/blocks/connected_block.h"
#include "model/layers/blocks/parallel_residual_block.h"
#include "model/layers/blocks/post_norm_block.h"
#include "model/layers/blocks/reversible_block.h"
#include "model/layers/blocks/sequential_block.h"

#include <cstddef>
#include <variant>
#include <vector>

namespace tp {

using DecoderBlock = std::variant<SequentialBlock, ParallelResidualBlock, PostNormBlock, ReversibleBlock,
                                  AltUpBlock, ConnectedBlock<HyperConnection>,
                                  ConnectedBlock<LowRankConnection>, ConnectedBlock<DepthAttention>>;

// Throws ConfigError or CheckpointError.
DecoderBlock load_block(WeightLoader& loader, const BlockSpec& spec, std::size_t hidden_size,
                        const BlockNames& names);

// Size of one sequence's state in the block on this rank, in floats; 0 if the block has none.
std::size_t state_floats_of(const DecoderBlock& block);

// The parts of this state.
std::vector<StatePart> state_parts_of(const DecoderBlock& block);

// The block's hash table; null if it has none.
const HashTable* hash_table_of(const DecoderBlock& block);

// Hints which rows of the block's hash table, if it has one, the step's tokens choose.
void announce_rows(const DecoderBlock& block, const StepContext& step);

// The block's cross-attention; null if it has none.
const CrossAttention* cross_attention_of(const DecoderBlock& block);

}  // namespace tp
