// A table with a row for every rank.
#pragma once

#include "tp/engine.h"

namespace tp {

// Prints the program's version, the model and the rank map to stderr. Only for rank 0, while no step runs.
void print_rank_map(Engine& engine);

// Prints the NUMA nodes of the cache, which are unknown until the cache is written. Prints nothing if hosts
// have one node. Only for rank 0, while no step runs.
void print_cache_nodes(Engine& engine);

}  // namespace tp
