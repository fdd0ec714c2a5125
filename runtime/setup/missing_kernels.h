// Notices that a build lacks the kernels of its processors, or that a processor has no vector instructions.
#pragma once

#include "model/kernels/simd/isa.h"
#include "tp/communicator.h"

#include <span>
#include <string>

namespace tp {

struct RankKernels {
  kernels::Isa machine;  // the best instruction set of the rank's processor
  kernels::Isa built;    // the best one of these that this build has kernels for
};

// Says which ranks have a better processor than this build has kernels for, and how to build them; else,
// which ranks have a processor without AVX2. Empty if there are none. `ranks`: one element per rank.
std::string missing_kernels(std::span<const RankKernels> ranks);

// The notice for the ranks of `comm`. Empty if TP_ISA chooses the kernels. Collective.
std::string missing_kernels(Communicator& comm);

}  // namespace tp
