// One rank's error becomes one message and the end of all ranks.
#pragma once

#include "tp/communicator.h"
#include "tp/error.h"

#include <cstddef>
#include <exception>
#include <functional>
#include <string>

namespace tp {

// Runs `work` on every rank, then tells all ranks whether it succeeded. If it threw anywhere, every rank
// throws AgreedError with the text of the lowest rank that failed. Collective, and `work` itself must not
// communicate unless it does so only when nothing before that can fail on one rank alone.
void fail_together(Communicator& comm, const std::function<void()>& work);

}  // namespace tp
