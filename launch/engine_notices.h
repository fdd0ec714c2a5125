// What a user should know about an engine that was opened, although it works.
#pragma once

#include "tp/engine.h"

namespace tp {

// Prints to stderr, each where it applies: weights are rounded, tensors of the checkpoint are not used, the
// cache was reduced, sequences are shorter than `options` asked for, there are more threads than cores. Rank
// 0.
void print_engine_notices(const EngineInfo& info, const EngineOptions& options);

}  // namespace tp
