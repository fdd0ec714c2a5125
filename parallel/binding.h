// The processors to which a launcher has bound this process.
#pragma once

#include "parallel/host_cores.h"

#include <optional>
#include <string_view>

namespace tp {

// What became of a binding that nobody asked for; in cores.
struct WidenedBinding {
  std::size_t from = 0;
  std::size_t to = 0;
};

// Unless told otherwise, Open MPI binds a rank to a single core where it starts one or two. This process then
// gets its share of the host's cores instead, as all other ranks must. Nothing if the binding was asked for,
// or is no smaller than the share. The first call does it, before there are threads; later ones tell what it
// did.
const std::optional<WidenedBinding>& widen_default_binding();

// Whether a variable of the environment, "NAME=value", tells that mpirun's user chose processors and not only
// hosts.
bool chooses_processors(std::string_view variable);

// The cores for rank `part.rank` of a host's `part.size` whose launcher may use `available`; none if `bound`
// has no fewer.
std::vector<Core> wider_binding(hwloc_topology_t topology, hwloc_const_cpuset_t bound,
                                hwloc_const_cpuset_t available, TpRank part);

}  // namespace tp
