// Who holds what: a row for every rank.
#pragma once

#include "tp/engine.h"

namespace tp {

// Prints the program's version, the model and the rank map to stderr. Rank 0, while no step runs.
void print_rank_map(Engine& engine);

// What the rank map cannot know, because the cache takes memory when it is written: on which NUMA nodes it
// lies. Nothing where hosts have one. Rank 0, while no step runs.
void print_cache_nodes(Engine& engine);

}  // namespace tp
