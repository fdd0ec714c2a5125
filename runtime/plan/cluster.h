// The machines of a plan: numbers, as a data sheet or `tp-infer plan --probe` gives them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tp {

// Hosts that are all alike.
struct Cluster {
  std::size_t ranks_per_host = 1;
  std::uint64_t memory = std::uint64_t{256} << 30;  // bytes of a host
  // What all ranks of a host reach together in the program's products: bytes of weights per second where
  // memory is the limit, and operations per second where arithmetic is.
  double bandwidth = 200e9;
  double flops = 2e12;
  // Between two hosts: seconds until a short message is there, bytes per second in each direction.
  double latency = 30e-6;
  double rate = 1.25e9;
  // Seconds that each further message takes which a host sends and receives at the same time.
  double message = 5e-6;

  // That so many ranks fill.
  std::size_t hosts_of(std::size_t ranks) const { return (ranks + ranks_per_host - 1) / ranks_per_host; }
  // One rank's part of its host.
  double rank_bandwidth() const { return bandwidth / static_cast<double>(ranks_per_host); }
  double rank_flops() const { return flops / static_cast<double>(ranks_per_host); }
};

}  // namespace tp
