// Predicts how long ranks of a cluster take to exchange data.
#pragma once

#include "runtime/plan/cluster.h"

#include <cstddef>

namespace tp {

// Seconds, in two parts that grow with different quantities.
struct WireTime {
  double latency = 0.0;   // grows with the number of messages that wait for each other
  double transfer = 0.0;  // grows with the number of bytes

  double total() const { return latency + transfer; }
  WireTime& operator+=(const WireTime& more) {
    latency += more.latency;
    transfer += more.transfer;
    return *this;
  }
  friend WireTime operator*(double factor, const WireTime& time) {
    return {factor * time.latency, factor * time.transfer};
  }
};

// An all-reduce of `bytes` over `ranks` ranks: through memory within hosts, and between hosts by the fastest
// of the program's algorithms, which sends `wire_bytes`.
WireTime all_reduce_time(const Cluster& cluster, std::size_t ranks, double bytes, double wire_bytes);

// The time of a step in addition to its layers: rank 0's command to all ranks, and the gathering of
// candidates.
WireTime control_time(const Cluster& cluster, std::size_t ranks);

// A message of `bytes` from one host to another.
WireTime message_time(const Cluster& cluster, double bytes);

}  // namespace tp
