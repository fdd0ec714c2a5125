// The cores of a host, and how its ranks share them.
#pragma once

#include "parallel/machine/core_set.h"
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

// The host's topology, restricted to the cores that this process's control groups allow. Throws Error.
hwloc_topology_t host_topology();

// The processors of all places to which OpenMP may bind threads; empty if it binds none.
ProcessorSet openmp_places();

// The processors that this rank's threads may run on. If OpenMP binds threads: all of its places, or with
// "master" the calling thread's place. Else: the calling thread's affinity mask. The mask alone says too
// little: GCC's library binds the first thread to one place before main starts, and clang's library does not.
ProcessorSet allowed_set();

// The hardware threads of one core, as numbered by the operating system.
using Core = std::vector<unsigned>;
// The cores of one NUMA domain.
using NumaDomain = std::vector<Core>;

// The cores that have hardware threads in `processors`, grouped by NUMA domain, in the topology's order.
// Omits hardware threads that are not in `processors`, and domains without cores.
std::vector<NumaDomain> numa_domains(hwloc_topology_t topology, hwloc_const_cpuset_t processors);

std::size_t count_cores(const std::vector<NumaDomain>& domains);

// The cores that have hardware threads in `processors`.
CoreSet cores_of(hwloc_topology_t topology, hwloc_const_cpuset_t processors);

// The cores for rank `tp.rank` of a host's `tp.size` ranks. All ranks get the same number of cores, and no
// core is shared. A rank's cores are in as few NUMA domains as possible, preferably whole domains. Empty if
// there are more ranks than cores.
std::vector<Core> share_of_cores(std::vector<NumaDomain> domains, TpRank tp);

}  // namespace tp
