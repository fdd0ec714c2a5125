// Do all ranks hold the same?
#pragma once

#include "tp/communicator.h"

#include <cstdint>
#include <string>

namespace tp {

// Collective. Throws CommError on every rank, naming the first rank that differs from rank 0, unless
// `fingerprint` is equal on all ranks. `what` names the thing compared and `advice` says what to do: "do all
// hosts see the same files?"
void require_agreement(Communicator& comm, std::uint64_t fingerprint, const std::string& what,
                       const std::string& advice);

}  // namespace tp
