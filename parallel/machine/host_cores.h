// The cores of a host, and how its ranks share them.
#pragma once

#include "parallel/shard/shard.h"

#include <memory>
#include <vector>

#include <hwloc.h>

namespace tp {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
// Hardware threads, as numbered by the operating system.
using ProcessorSet = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// The cores that the control groups of this process allow, by NUMA domain. Throws Error.
hwloc_topology_t host_topology();

// The processors that the calling thread may run on.
ProcessorSet allowed_set();

// The hardware threads of one core, as numbered by the operating system.
using Core = std::vector<unsigned>;
// The cores of one NUMA domain.
using NumaDomain = std::vector<Core>;

// The cores with at least one hardware thread in `processors`, restricted to those threads, in topological
// order. Domains without such a core are omitted.
std::vector<NumaDomain> numa_domains(hwloc_topology_t topology, hwloc_const_cpuset_t processors);

std::size_t count_cores(const std::vector<NumaDomain>& domains);

// The cores of rank `tp.rank` out of a host's `tp.size` ranks: equally many and disjoint for all ranks,
// in as few NUMA domains as possible, preferring whole ones. Empty if there are more ranks than cores.
std::vector<Core> share_of_cores(std::vector<NumaDomain> domains, TpRank tp);

}  // namespace tp
