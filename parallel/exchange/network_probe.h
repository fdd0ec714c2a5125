// Measures the network between hosts under the load of all-reduces.
#pragma once

#include "tp/communicator.h"

#include <optional>

namespace tp {

// Rates while all hosts exchange messages at the same time.
struct NetworkRates {
  double latency = 0.0;  // seconds until a short message arrives
  double rate = 0.0;     // bytes per second in each direction of each host
  double message = 0.0;  // seconds for each additional short message; 0 with two hosts
};

// Uses the shortest of several measurements, because other programs and full queues can only add time.
// nullopt if there is only one host. Collective; equal on every rank. Throws CommError.
std::optional<NetworkRates> probe_network(Communicator& comm);

}  // namespace tp
