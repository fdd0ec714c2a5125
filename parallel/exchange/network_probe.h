// Measures the network between hosts, using the message patterns of all-reduces.
#pragma once

#include "tp/communicator.h"

#include <optional>

namespace tp {

// Rates while all hosts exchange messages at the same time.
struct NetworkRates {
  double latency = 0.0;  // seconds until a short message arrives
  double rate = 0.0;     // bytes per second that each host sends while receiving at the same rate
  double message = 0.0;  // seconds for each additional short message; 0 with two hosts
};

// Takes the shortest of several measurements, because other programs and full queues can only add time.
// nullopt if there is only one host. Collective; all ranks get the same rates. Throws CommError.
std::optional<NetworkRates> probe_network(Communicator& comm);

}  // namespace tp
