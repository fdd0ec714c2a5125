// A cluster to plan for: numbers from a data sheet or from `tp-infer plan --probe`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp {

// A cluster of identical hosts.
struct Cluster {
  std::size_t ranks_per_host = 1;
  std::uint64_t memory = std::uint64_t{256} << 30;  // bytes per host
  // The rates of the program's products on all ranks of a host together: bytes of weights per second if
  // memory is the limit, and operations per second if arithmetic is.
  double bandwidth = 200e9;
  double flops = 2e12;
  // Between two hosts: seconds until a short message arrives, and bytes per second in each direction.
  double latency = 30e-6;
  double rate = 1.25e9;
  // Additional seconds for each further message that a host sends and receives at the same time.
  double message = 5e-6;

  // Number of hosts for this many ranks.
  std::size_t hosts_of(std::size_t ranks) const { return (ranks + ranks_per_host - 1) / ranks_per_host; }
  // A rank's share of its host's rates.
  double rank_bandwidth() const { return bandwidth / static_cast<double>(ranks_per_host); }
  double rank_flops() const { return flops / static_cast<double>(ranks_per_host); }
};

}  // namespace tp
