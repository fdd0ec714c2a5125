// The adapter of a request.
#pragma once

#include "runtime/scheduling/leader_options.h"
#include "tp/request.h"

#include <cstddef>

namespace tp {

// Returns the index + 1 of the adapter that the request chooses, or 0. Makes the adapter part of the cache
// salt, because cached keys and values depend on it. Throws RequestError if there is no such adapter.
std::size_t choose_adapter(const LeaderOptions& options, Request& request);

}  // namespace tp
