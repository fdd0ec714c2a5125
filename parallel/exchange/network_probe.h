// Measures the network between hosts, as sums over them meet it.
#pragma once

#include "tp/communicator.h"

#include <optional>

namespace tp {

// While all hosts exchange messages at the same time.
struct NetworkRates {
  double latency = 0.0;  // seconds until a short message arrives
  double rate = 0.0;     // bytes per second into each host, and out of it
  double message = 0.0;  // seconds that each further short message takes; of two hosts 0
};

// Nothing on a single host. The quickest of several times, as other programs and a full queue make them only
// longer. Collective; equal on every rank. Throws CommError.
std::optional<NetworkRates> probe_network(Communicator& comm);

}  // namespace tp
