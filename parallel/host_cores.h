// The cores of a host, and how its ranks share them.
#pragma once

#include "parallel/shard.h"

#include <memory>
#include <vector>

#include <hwloc.h>

namespace tp {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
// Hardware threads, by the operating system's numbers.
using ProcessorSet = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// What the machine is made of, as far as the control groups allow this process to use it. Throws Error.
hwloc_topology_t host_topology();

// The processors that the calling thread may run on.
ProcessorSet allowed_set();

// A core's hardware threads, by the operating system's numbers.
using Core = std::vector<unsigned>;
// The cores next to one memory.
using NumaDomain = std::vector<Core>;

// The cores of which `processors` has at least one hardware thread, with those that it has; neighbours in the
// machine are neighbours here. Domains without such a core are left out.
std::vector<NumaDomain> numa_domains(hwloc_topology_t topology, hwloc_const_cpuset_t processors);

std::size_t count_cores(const std::vector<NumaDomain>& domains);

// The cores of rank `part.rank` of the `part.size` ranks of a host: as many for each, none for two, and in as
// few domains as possible, whole ones first. Empty if there are more ranks than cores.
std::vector<Core> share_of_cores(std::vector<NumaDomain> domains, TpRank part);

}  // namespace tp
