#include "parallel/exchange/agreement.h"

#include "parallel/exchange/exchange.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

// Ranks arrive at different times, and rank 0 may have waited for user input.
constexpr Wait::Manner kManner{
    .collective = "a synchronization of all ranks", .polite = true, .root_has_time = true};

}  // namespace

std::string hexadecimal(std::uint64_t value) { return fmt::format("{:016x}", value); }

void require_agreement(Communicator& comm, std::uint64_t fingerprint, const std::string& what,
                       const std::string& advice, const std::function<std::string(std::uint64_t)>& show) {
  const std::vector<std::uint64_t> all = comm.exchange().all_values(fingerprint, kManner);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    require<CommError>(all[rank] == all[0], "the ranks disagree about {}: rank 0 has {}, rank {} has {}; {}",
                       what, show(all[0]), rank, show(all[rank]), advice);
  }
}

std::optional<RankError> first_error(Exchange& exchange, const std::string& own) {
  const std::vector<std::size_t> lengths = exchange.all_values(own.size(), kManner);
  const auto first = std::ranges::find_if(lengths, [](std::size_t length) { return length != 0; });
  if (first == lengths.end()) return {};
  RankError error{static_cast<std::size_t>(first - lengths.begin()), std::string(*first, ' ')};
  const bool is_own = error.rank == exchange.rank();
  if (is_own) error.text = own;
  std::vector<Exchange::Bytes> from(exchange.size());
  if (!is_own) from[error.rank] = std::as_writable_bytes(std::span(error.text));
  const auto to = is_own ? std::as_bytes(std::span(own)) : Exchange::ConstBytes();
  exchange.to_all(to, from, kManner);
  return error;
}

}  // namespace tp
