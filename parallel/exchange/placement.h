#pragma once

#include "parallel/machine/core_set.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

namespace tp {

// The processes of a communicator and their hosts. All ranks have the same values, except for `rank` and
// `processes_here`.
struct Placement {
  struct Process {
    std::int64_t id = 0;
    std::string host;
    std::size_t rank = 0;  // rank in the job
    CoreSet cores{};       // cores that the rank may use, as its host numbers them
  };

  std::size_t rank = 0;                         // this rank
  std::vector<Process> processes;               // [ranks]
  std::vector<std::vector<std::size_t>> hosts;  // each host's ranks, ascending; hosts sorted by lowest rank
  std::vector<std::size_t> host_of;             // [ranks], indices into `hosts`
  std::size_t processes_here = 1;               // the job's processes on this host, listed above or not
  std::size_t core_share = 1;                   // this rank's share of its cores; 0: more ranks than cores

  std::size_t size() const { return processes.size(); }
  // The ranks on this rank's host.
  const std::vector<std::size_t>& own_host() const { return hosts[host_of[rank]]; }
  bool on_own_host(std::size_t other) const { return host_of[other] == host_of[rank]; }

  // The placement of the subgroup that consists of `ranks`, in that order. `ranks` must include this rank.
  Placement restricted_to(std::span<const std::size_t> ranks) const;
};

// Collective over `comm`. Ranks that pass different `group` numbers are treated as if they were on different
// hosts. Throws CommError.
Placement find_placement(MPI_Comm comm, int group = 0);

// This rank's number of threads if --threads is not given; parallel/machine/processors.h has the rules.
std::size_t default_threads(const Placement& placement);

// Whether a process on this host is stopped, by SIGSTOP or a debugger.
bool is_stopped(std::int64_t process);

}  // namespace tp
