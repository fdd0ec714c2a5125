// Do all ranks hold the same, and has one of them failed?
#pragma once

#include "tp/communicator.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace tp {

// Collective. Throws CommError on every rank, naming the first rank that differs from rank 0, unless
// `fingerprint` is equal on all ranks. `what` names the thing compared and `advice` says what to do: "do all
// hosts see the same files?"
void require_agreement(Communicator& comm, std::uint64_t fingerprint, const std::string& what,
                       const std::string& advice);

struct RankError {
  std::size_t rank = 0;
  std::string text;
};

// Tells every rank the text of the lowest rank that has one; nothing if all are empty. Ranks wait for rank 0
// for as long as it likes. Collective. Throws CommError.
std::optional<RankError> first_error(Exchange& exchange, const std::string& own);

}  // namespace tp
