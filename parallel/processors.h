// The processors that this process may use.
#pragma once

#include <cstddef>

namespace tp {

// Processors of this host that are switched on.
std::size_t online_processors();

// Processors that this process is allowed to run on (its affinity mask).
std::size_t allowed_processors();

// Threads for a rank when the user names none: its allowed processors, divided by the ranks of the host if
// the launcher has not divided them already by binding. At least 1.
std::size_t default_threads(std::size_t ranks_on_host);

}  // namespace tp
