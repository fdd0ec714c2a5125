#include "runtime/plan/probe.h"

#include "model/rates/product_rates.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/network_probe.h"
#include "parallel/exchange/placement.h"
#include "parallel/machine/available_memory.h"
#include "parallel/machine/processors.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

namespace tp {
namespace {

struct RankRates {
  ProductRates products;
  std::uint64_t memory = 0;
};

}  // namespace

ProbedCluster probe_cluster(Communicator& comm, WeightType weights, std::size_t threads) {
  fail_together(comm, [&] { set_threads(threads); });
  ProbedCluster probed{.hosts = comm.placement().hosts.size()};
  Cluster& cluster = probed.cluster;
  RankRates own;
  own.memory = available_memory().bytes;
  if (const std::optional<NetworkRates> network = probe_network(comm)) {
    cluster.latency = network->latency;
    cluster.rate = network->rate;
    if (network->message > 0.0) cluster.message = network->message;
  }
  barrier(comm);
  fail_together(comm, [&] { own.products = local_product_rates(weights); });
  const std::vector<RankRates> all = exchange_values(comm, std::span<const RankRates>(&own, 1));
  cluster.memory = UINT64_MAX;
  cluster.bandwidth = cluster.flops = HUGE_VAL;
  for (const std::vector<std::size_t>& host : comm.placement().hosts) {
    ProductRates sum;
    for (const std::size_t rank : host) {
      sum.bytes_per_second += all[rank].products.bytes_per_second;
      sum.operations_per_second += all[rank].products.operations_per_second;
      cluster.memory = std::min(cluster.memory, all[rank].memory);
    }
    cluster.ranks_per_host = std::max(cluster.ranks_per_host, host.size());
    cluster.bandwidth = std::min(cluster.bandwidth, sum.bytes_per_second);
    cluster.flops = std::min(cluster.flops, sum.operations_per_second);
  }
  return probed;
}

}  // namespace tp
