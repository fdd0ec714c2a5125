// The exit status of a program that runs on several ranks, and the reports of its errors.
#pragma once

#include "tp/communicator.h"
#include "tp/engine.h"

#include <cstddef>
#include <functional>
#include <string>

namespace tp {

// Prints an error of rank `rank` of `size`.
using ErrorReport = std::function<void(std::size_t rank, std::size_t size, const std::string& message)>;

// "[rank 1/2] "; empty for rank 0.
std::string rank_prefix(std::size_t rank, std::size_t size);

// Runs `body` on this rank and returns its exit status, or 1 after an error. Rank 0 reports an AgreedError,
// and all ranks return. Any other error is reported by this rank. It ends the whole job if there are several
// ranks, because the other ranks cannot know of it.
int status_of(std::size_t rank, std::size_t size, const ErrorReport& report,
              const std::function<int()>& body);

// Rank 0 runs `lead`, which steps the engine, while the other ranks follow. Returns the exit status. An error
// of rank 0 between steps becomes an AgreedError: the other ranks learn of it when the engine is destroyed.
// std::bad_alloc stays as it is, so that status_of() ends the job.
int lead_or_follow(const Communicator& comm, Engine& engine, const std::function<int()>& lead);

}  // namespace tp
