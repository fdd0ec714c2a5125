// Checks that ranks agree, and tells all ranks about an error on one of them.
#pragma once

#include "tp/communicator.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tp {

std::string hexadecimal(std::uint64_t value);
inline std::string yes_or_no(std::uint64_t value) { return value != 0 ? "yes" : "no"; }

// Collective. Throws CommError on every rank if `fingerprint` differs between ranks. The error names the
// first rank that differs from rank 0. `what` names the compared data; `advice` is a hint for the user, such
// as "do all hosts see the same files?" `show` shows a value to the user; hashes are shown as hexadecimal
// numbers.
void require_agreement(Communicator& comm, std::uint64_t fingerprint, const std::string& what,
                       const std::string& advice,
                       const std::function<std::string(std::uint64_t)>& show = hexadecimal);

struct RankError {
  std::size_t rank = 0;
  std::string text;
};

// Collective. `own` is this rank's error, or empty. Returns the error of the lowest rank that has one;
// nullopt if no rank has an error. Waiting for rank 0 times out only if rank 0's process is stopped. Throws
// CommError.
std::optional<RankError> first_error(Exchange& exchange, const std::string& own);

}  // namespace tp
