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

// Measures the slowest host, with weights of this type and `threads` threads per rank. Also measures the
// network, while all hosts exchange short and long messages with their neighbours. With a single host, the
// network keeps its default numbers. Takes about two seconds. Collective; equal on every rank. Throws
// AgreedError and CommError.
ProbedCluster probe_cluster(Communicator& comm, WeightType weights, std::size_t threads);

}  // namespace tp
