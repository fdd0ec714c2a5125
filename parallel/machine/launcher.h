// The program that started this process as a rank: mpirun, mpiexec or srun.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

namespace tp {

// The parent of a process; 0 if it is not visible.
pid_t parent_of(pid_t process);

// The closest ancestor of this process that starts ranks.
struct Launcher {
  std::string name;   // name of its program: "mpirun", "hydra_pmi_proxy", "slurmstepd"
  pid_t process = 0;  // process id of mpirun, or of its daemon on this host
  pid_t started = 0;  // the launcher's child: this process, or a script that runs it
};
std::optional<Launcher> find_launcher();

// This process's rank and the number of ranks, before MPI is initialized; 0 and 1 without a launcher.
struct LaunchedRank {
  int rank = 0;
  int size = 1;
  bool by_mpirun = false;         // mpirun ends all ranks when one fails
  bool on_several_hosts = false;  // whether mpirun has started ranks on several hosts
  std::string launcher{};         // name in errors: "Open MPI's mpirun"
  bool is_counted = false;        // rank and size were counted among the launcher's children
  bool is_least_size = false;     // size is a lower bound: the launcher does not report it
};
// Reads the launcher's environment variables, once. If there are none, searches the ancestors for a launcher.
LaunchedRank launched_rank();

// Throws CommError if a launcher started several ranks without its environment variables, which MPI needs to
// connect them. Call it before MPI starts.
void require_launcher_variables(const LaunchedRank& launched);

// Throws CommError if MPI, whose name is `library`, sees only this process although a launcher started
// several ranks. Each of them would do all the work and print all the results.
void require_own_launcher(const LaunchedRank& launched, const std::string& library);

}  // namespace tp
