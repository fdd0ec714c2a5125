// Checks that ranks agree, and tells all of them of a failure on one.
#pragma once

#include "tp/communicator.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tp {

// Collective. Throws CommError on every rank, naming the first rank that differs from rank 0, unless
// `fingerprint` is equal on all ranks. `what` names what is compared; `advice` says what to do, such as "do
// all hosts see the same files?"
void require_agreement(Communicator& comm, std::uint64_t fingerprint, const std::string& what,
                       const std::string& advice);

struct RankError {
  std::size_t rank = 0;
  std::string text;
};

// Collective. Returns the text of the lowest rank whose text is not empty; nothing if all are empty. Waiting
// for rank 0 never times out. Throws CommError.
std::optional<RankError> first_error(Exchange& exchange, const std::string& own);

}  // namespace tp
