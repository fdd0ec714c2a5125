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

// Whether this is the plan of the layer or of a trained drafter, which read the model's states.
bool reads_states(const EnginePlan& draft);
// Number of the target's states to keep for the layer or drafter: the states of a whole step, and of earlier
// steps that did not query it.
std::size_t states_read(const EnginePlan& draft);
// The size of each of these states: a hidden state, or all streams that a drafter reads.
std::size_t size_of_read_state(const EnginePlan& draft);
// Bytes of these states on a rank, including the layer's or drafter's own states.
std::uint64_t bytes_of_states(const EnginePlan& draft);

}  // namespace tp
