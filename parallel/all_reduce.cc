#include "parallel/all_reduce.h"

#include "tp/internal/require.h"

#include <cstdlib>
#include <string_view>

namespace tp {

AllReduce::AllReduce(MPI_Comm comm, const Patience& patience, Exchange& exchange)
    : messages_(exchange, patience.placement.hosts) {
  const int forced = exchange.rank() == 0 && is_forced_to_messages() ? 1 : 0;
  if (exchange.all_values(forced, {.collective = "the choice of a way of all-reduces"}).front() != 0) return;
  shared_ = SharedMemoryAllReduce::create(comm, patience, exchange, not_shared_because_);
}

bool AllReduce::is_forced_to_messages() {
  const char* const value = std::getenv("TP_ALL_REDUCE");
  const std::string_view way = value != nullptr && *value != '\0' ? value : "shared";
  require<ConfigError>(way == "shared" || way == "messages",
                       "cannot choose a way of all-reduces: TP_ALL_REDUCE must be shared or messages, found "
                       "\"{}\"; unset it",
                       way);
  return way == "messages";
}

}  // namespace tp
