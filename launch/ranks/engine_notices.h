// Notices about an engine that works, but not as the user might expect.
#pragma once

#include "tp/engine.h"

#include <string>
#include <vector>

namespace tp {

// Prints the notices of a model's file readers to stderr.
void print_file_notices(const std::vector<std::string>& notices);

// Prints the notices that apply to stderr: notices about files, rounded weights, unused tensors, a reduced
// cache, and sequences shorter than `options` requested. Only for rank 0.
void print_engine_notices(const EngineInfo& info, const EngineOptions& options);

}  // namespace tp
