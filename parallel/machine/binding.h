// Core bindings that the user did not ask for: widens them, or names who made them.
#pragma once

#include "parallel/machine/host_cores.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// Whether an environment variable ("NAME=value") or an option of mpirun ("--map-by=core") shows that its user
// chose processors, not just hosts. OpenMP's variables are not among them: widen_default_binding() asks
// OpenMP whether it binds threads.
bool chooses_processors(std::string_view setting);

// Whether options of Open MPI 5's mpirun show it: "--map-by", "core", "-np", "2".
bool options_choose_processors(const std::vector<std::string>& options);

// Whether OpenMP binds threads to its places. All ranks with the same places then use the same cores.
bool openmp_binds_threads();

// A limit on this process's cores that its user may not have noticed.
enum class CoreLimit : std::uint8_t {
  none,
  slurm,        // srun gives a task one core if --cpus-per-task is missing
  mpirun,       // mpirun's default binding, which could not be widened
  open_mp_bind  // OMP_PROC_BIND=master keeps all threads on one of OpenMP's places
};
struct LimitedCores {
  CoreLimit by = CoreLimit::none;
  std::size_t reachable = 0;  // cores of this host that the job could use; 0 if there is no limit
};
LimitedCores limited_cores();

// The number of processors on the first host of Slurm's list: 64 for "64(x2),32". 0 if there is none.
std::size_t first_count(std::string_view list);

// The cores for rank `tp.rank` of a host's `tp.size` ranks, chosen from the cores that the launcher may use
// (`available`). Empty if the rank's present binding (`bound`) has at least as many cores.
std::vector<Core> wider_binding(hwloc_topology_t topology, hwloc_const_cpuset_t bound,
                                hwloc_const_cpuset_t available, TpRank tp);

}  // namespace tp
