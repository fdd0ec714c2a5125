#include "parallel/machine/host_cores.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <iterator>

#include <omp.h>

namespace tp {
namespace {

// The smallest domain with at least `wanted` remaining cores, or else the domain with the most remaining
// cores.
NumaDomain& best_domain(std::vector<NumaDomain>& domains, std::size_t wanted) {
  return *std::min_element(domains.begin(), domains.end(), [&](const NumaDomain& a, const NumaDomain& b) {
    const bool a_suffices = a.size() >= wanted;
    const bool b_suffices = b.size() >= wanted;
    if (a_suffices != b_suffices) return a_suffices;
    return a_suffices ? a.size() < b.size() : a.size() > b.size();
  });
}

std::vector<Core> take_cores(std::vector<NumaDomain>& domains, std::size_t wanted) {
  std::vector<Core> taken;
  while (taken.size() < wanted) {
    NumaDomain& domain = best_domain(domains, wanted - taken.size());
    const auto end =
        domain.begin() + static_cast<std::ptrdiff_t>(std::min(domain.size(), wanted - taken.size()));
    std::move(domain.begin(), end, std::back_inserter(taken));
    domain.erase(domain.begin(), end);
  }
  return taken;
}

void add_processors_of(int place, hwloc_bitmap_t set) {
  std::vector<int> processors(static_cast<std::size_t>(omp_get_place_num_procs(place)));
  omp_get_place_proc_ids(place, processors.data());
  for (const int processor : processors) hwloc_bitmap_set(set, static_cast<unsigned>(processor));
}

// The processors to which OpenMP binds a rank's threads; empty if it binds none.
ProcessorSet openmp_processors() {
  const omp_proc_bind_t binding = omp_get_proc_bind();
  ProcessorSet set(hwloc_bitmap_alloc());
  if (binding == omp_proc_bind_false) return set;
  if (binding != omp_proc_bind_master) return openmp_places();
  if (const int place = omp_get_place_num(); place >= 0) add_processors_of(place, set.get());
  return set;
}

hwloc_topology_t load_topology() {
  hwloc_topology_t topology = nullptr;
  const bool loaded = hwloc_topology_init(&topology) == 0 && hwloc_topology_load(topology) == 0;
  require<Error>(
      loaded, "cannot determine the cores of this host: hwloc expected them in /sys and did not find them");
  return topology;
}

}  // namespace

hwloc_topology_t host_topology() {
  static const hwloc_topology_t topology = load_topology();
  return topology;
}

ProcessorSet openmp_places() {
  ProcessorSet all(hwloc_bitmap_alloc());
  for (int place = 0; place < omp_get_num_places(); ++place) add_processors_of(place, all.get());
  return all;
}

ProcessorSet allowed_set() {
  ProcessorSet set = openmp_processors();
  if (hwloc_bitmap_iszero(set.get()) != 0 &&
      hwloc_get_cpubind(host_topology(), set.get(), HWLOC_CPUBIND_THREAD) != 0)
    hwloc_bitmap_fill(set.get());
  return set;
}

std::vector<NumaDomain> numa_domains(hwloc_topology_t topology, hwloc_const_cpuset_t processors) {
  std::vector<NumaDomain> domains;
  int memory = -1;  // memory node of the current domain
  // If a virtual machine doesn't reveal its cores, each hardware thread counts as a core.
  const int depth = hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE);
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_depth(topology, depth, object)) != nullptr;) {
    Core core;
    for (int processor = -1; (processor = hwloc_bitmap_next(object->cpuset, processor)) >= 0;) {
      if (hwloc_bitmap_isset(processors, static_cast<unsigned>(processor)) != 0)
        core.push_back(static_cast<unsigned>(processor));
    }
    if (core.empty()) continue;
    // A core may be local to two memory nodes of different kinds; the first node identifies the core's
    // domain.
    if (domains.empty() || hwloc_bitmap_first(object->nodeset) != memory) domains.emplace_back();
    memory = hwloc_bitmap_first(object->nodeset);
    domains.back().push_back(std::move(core));
  }
  return domains;
}

std::size_t count_cores(const std::vector<NumaDomain>& domains) {
  std::size_t count = 0;
  for (const NumaDomain& domain : domains) count += domain.size();
  return count;
}

CoreSet cores_of(hwloc_topology_t topology, hwloc_const_cpuset_t processors) {
  CoreSet cores;
  const int depth = hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE);
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_depth(topology, depth, object)) != nullptr;) {
    const auto number = static_cast<std::size_t>(hwloc_bitmap_first(object->cpuset));
    if (number < cores.size() && hwloc_bitmap_intersects(object->cpuset, processors) != 0) cores.set(number);
  }
  return cores;
}

std::vector<Core> share_of_cores(std::vector<NumaDomain> domains, TpRank tp) {
  const std::size_t each = count_cores(domains) / tp.size;
  std::vector<Core> share;
  for (std::size_t rank = 0; rank <= tp.rank; ++rank) share = take_cores(domains, each);
  return share;
}

}  // namespace tp
