#include "runtime/plan/communication.h"

#include <algorithm>
#include <bit>

namespace tp {
namespace {

// Within a host: seconds until a rank sees data that another rank has written, and bytes per second at which
// it reads the data. Measured with bench_collectives (bench/RESULTS.md); both hardly differ between machines.
constexpr double kSignal = 1.5e-6;
constexpr double kCopyRate = 20e9;

// Seconds to plan a step, and to choose and detokenize its tokens.
constexpr double kPlanning = 60e-6;

// Every rank reads all slots of other ranks, or reads a part of each slot and then the whole sum.
WireTime within_host(std::size_t ranks, double bytes) {
  if (ranks <= 1) return {};
  return {kSignal, bytes * std::min(static_cast<double>(ranks), 3.0) / kCopyRate};
}

WireTime between_hosts(const Cluster& cluster, std::size_t hosts, double bytes) {
  if (hosts <= 1) return {};
  const auto count = static_cast<double>(hosts);
  const double others = (count - 2.0) * cluster.message;  // messages in addition to the first
  const double whole = bytes / cluster.rate;
  const double parts = 2.0 * (count - 1.0) / count * whole;
  const WireTime one_shot{cluster.latency + others, (count - 1.0) * whole};
  const WireTime two_shot{2.0 * (cluster.latency + others), parts};
  const WireTime doubling{static_cast<double>(std::bit_width(hosts - 1)) * cluster.latency,
                          one_shot.transfer};
  const WireTime faster = one_shot.total() <= two_shot.total() ? one_shot : two_shot;
  return std::has_single_bit(hosts) && doubling.total() < faster.total() ? doubling : faster;
}

}  // namespace

WireTime all_reduce_time(const Cluster& cluster, std::size_t ranks, double bytes, double wire_bytes) {
  WireTime time = within_host(std::min(ranks, cluster.ranks_per_host), bytes);
  time += between_hosts(cluster, cluster.hosts_of(ranks), wire_bytes);
  return time;
}

WireTime control_time(const Cluster& cluster, std::size_t ranks) {
  const std::size_t hosts = cluster.hosts_of(ranks);
  if (hosts <= 1) return {kPlanning, 0.0};
  const double messages = static_cast<double>(ranks - 2) * cluster.message;
  return {kPlanning + 2.0 * (cluster.latency + messages), 0.0};
}

WireTime message_time(const Cluster& cluster, double bytes) {
  return {cluster.latency, bytes / cluster.rate};
}

}  // namespace tp
