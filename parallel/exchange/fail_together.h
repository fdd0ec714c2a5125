#pragma once

#include "tp/communicator.h"
#include "tp/error.h"

#include <exception>
#include <functional>
#include <string>

namespace tp {

// Runs `work` on every rank. If it throws on any rank, every rank throws AgreedError with the message of the
// lowest rank that failed. Collective. `work` may communicate only if its code before the communication
// either succeeds on all ranks or fails on all ranks.
void fail_together(Communicator& comm, const std::function<void()>& work);

// Runs `work`, in which only some ranks communicate, inside fail_together of all ranks. Replaces their
// AgreedError by another Error, because the other ranks do not know it yet.
void fail_among_some(const std::function<void()>& work);

}  // namespace tp
