// Measures the cluster that this job runs on.
#pragma once

#include "runtime/plan/cluster.h"
#include "tp/communicator.h"
#include "tp/memory_types.h"

#include <cstddef>

namespace tp {

struct ProbedCluster {
  Cluster cluster{};
  std::size_t hosts = 1;
};

// What the slowest host reaches with weights of this type and so many threads per rank, and the network
// between hosts: the time in which all of them exchange messages with their neighbours, short and long ones.
// On one host the numbers of the network remain as they are by default. Takes about two seconds. Collective;
// equal on every rank. Throws AgreedError and CommError.
ProbedCluster probe_cluster(Communicator& comm, WeightType weights, std::size_t threads);

}  // namespace tp
