// Notices for the user about the cores and threads of ranks.
#pragma once

#include "parallel/exchange/placement.h"
#include "parallel/machine/binding.h"
#include "tp/communicator.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tp {

// A rank's threads, and its limit on cores.
struct RankThreads {
  std::size_t threads = 1;
  bool is_bound = false;  // whether OpenMP has bound the first thread
  LimitedCores limited{};
};

// The notices for the user: ranks run more threads than they have cores; OpenMP binds several ranks to the
// same cores; a rank got one core of many. `ranks`: one per rank. `is_crowded`: the user told mpirun that
// there are more ranks than cores, so one thread per rank is not worth a notice.
std::vector<std::string> core_notices(const Placement& placement, std::span<const RankThreads> ranks,
                                      bool is_crowded);

// The notices for this job. `threads`: the threads of this rank. Empty except on rank 0. Collective.
std::vector<std::string> core_notices(Communicator& comm, std::size_t threads);

}  // namespace tp
