// The callback of a subcommand that needs no ranks.
#pragma once

#include "parallel/mpi_session.h"

#include <functional>
#include <utility>

namespace tp {

// Does `work` on the first rank, should mpirun have started several. The others keep it all the same: it owns
// what options are parsed into.
inline std::function<void()> on_first_rank(std::function<void()> work) {
  return [work = std::move(work)] {
    if (launched_rank().rank == 0) work();
  };
}

}  // namespace tp
