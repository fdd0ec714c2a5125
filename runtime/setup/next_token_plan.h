// Plans the model's own multi-token prediction layer, which predicts the token after the next one.
#pragma once

#include "runtime/setup/engine_setup.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// Whether the checkpoint contains the layer, and the engine can use it.
bool has_next_token_layer(const EnginePlan& model);
// Throws ConfigError or CheckpointError if the engine cannot use the layer, or the checkpoint lacks it.
void require_next_token_layer(const EnginePlan& model);

// The plan of the layer, divided among `ranks` ranks.
EnginePlan next_token_plan(std::size_t ranks, const EnginePlan& model);

// Number of the target's states to keep for the layer: the states of a whole step, and of earlier steps that
// did not query the layer.
std::size_t states_read_by_next_token(const EnginePlan& layer);
// Bytes of these states on a rank, including the layer's own states.
std::uint64_t bytes_of_states(const EnginePlan& layer);

}  // namespace tp
