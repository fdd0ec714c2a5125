// Plans the model's own multi-token prediction layer, which predicts the token after the next one.
#pragma once

#include "runtime/setup/engine_setup.h"

#include <cstddef>
#include <cstdint>

namespace tp {

// Whether the checkpoint has such a layer, and the engine can use it.
bool has_next_token_layer(const EnginePlan& model);
// Throws ConfigError or CheckpointError if not.
void require_next_token_layer(const EnginePlan& model);

// The plan of the layer, divided among so many ranks.
EnginePlan next_token_plan(std::size_t ranks, const EnginePlan& model);

// How many of the model's states the layer of this plan finds: those of a whole step, and of further ones in
// which it was not asked.
std::size_t states_read_by_next_token(const EnginePlan& layer);
// Their bytes on a rank, with those of the layer's own.
std::uint64_t bytes_of_states(const EnginePlan& layer);

}  // namespace tp
