// Widens a core binding that the user did not ask for.
#pragma once

#include "parallel/machine/host_cores.h"

#include <optional>
#include <string_view>

namespace tp {

// How many cores a binding contains before and after it is widened.
struct WidenedBinding {
  std::size_t from = 0;
  std::size_t to = 0;
};

// By default, Open MPI binds each rank to a single core if it starts one or two ranks. This function gives
// the process its share of the host's cores instead; all ranks of the host must call it. Returns nullopt if
// the user asked for the binding, or if the binding is at least as large as the share. Call it before any
// other thread starts; later calls return the result of the first.
const std::optional<WidenedBinding>& widen_default_binding();

// Whether an environment variable ("NAME=value") shows that the user of mpirun chose processors, not just
// hosts.
bool chooses_processors(std::string_view variable);

// The cores for rank `tp.rank` of a host's `tp.size` ranks, chosen from the cores that the launcher may use
// (`available`). Empty if the rank's present binding (`bound`) has at least as many cores.
std::vector<Core> wider_binding(hwloc_topology_t topology, hwloc_const_cpuset_t bound,
                                hwloc_const_cpuset_t available, TpRank tp);

}  // namespace tp
