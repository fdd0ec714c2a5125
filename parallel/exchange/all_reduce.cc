#include "parallel/exchange/all_reduce.h"

#include "parallel/exchange/wire_choice.h"
#include "tp/internal/require.h"

#include <cstdlib>
#include <string_view>

namespace tp {

AllReduce::AllReduce(MPI_Comm comm, const Patience& patience, Exchange& exchange)
    : exchange_(exchange),
      hosts_(patience.placement.hosts.size()),
      messages_(exchange, patience.placement.hosts),
      ranks_are_alone_(patience.placement.hosts.size() == patience.placement.size()) {
  const int forced = exchange.rank() == 0 && is_forced_to_messages() ? 1 : 0;
  if (exchange.all_values(forced, {.collective = "the choice of a way of all-reduces"}).front() != 0) return;
  if (patience.placement.hosts.size() > 1) host_roots_.emplace(comm, patience);
  shared_ = SharedMemoryAllReduce::create(comm, patience, exchange, wire(), not_shared_because_);
  if (shared_ == nullptr && !ranks_are_alone_) host_roots_.reset();
}

void AllReduce::prepare_wire(WireType type) {
  if (hosts_ == 1) return;
  require<ConfigError>(
      type == WireType::f32 || host_roots_,
      "cannot send {} between hosts: expected shared memory within each host, found none ({}); "
      "make /dev/shm larger, or use the wire type f32",
      name_of(type), not_shared_because_.empty() ? "TP_ALL_REDUCE=messages" : not_shared_because_);
  if (wire() != nullptr) choose_wire_ways(*wire(), *host_roots_->exchange(), type);
  exchange_.all_values(0, {.collective = "the measurement of the network"});
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
