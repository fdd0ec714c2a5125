// Notices about an engine that works, but not as the user might expect.
#pragma once

#include "tp/engine.h"

#include <string>
#include <vector>

namespace tp {

// Prints to stderr what readers of a model's files have noticed.
void print_file_notices(const std::vector<std::string>& notices);

// Prints to stderr, each where it applies: notices about files, weights are rounded, tensors of the
// checkpoint are not used, the cache was reduced, sequences are shorter than `options` asked for.
// Rank 0.
void print_engine_notices(const EngineInfo& info, const EngineOptions& options);

}  // namespace tp
