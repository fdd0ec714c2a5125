// The program that started this process as a rank: mpirun, mpiexec or srun.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

namespace tp {

// The parent of a process; 0 if it cannot be seen.
pid_t parent_of(pid_t process);

// The closest ancestor of this process that starts ranks.
struct Launcher {
  std::string name;   // name of its program: "mpirun", "hydra_pmi_proxy", "slurmstepd"
  pid_t process = 0;  // on this host, where mpirun may only have a daemon
  pid_t started = 0;  // its child: this process, or a script around this process
};
std::optional<Launcher> find_launcher();

// This process's rank and the number of ranks before MPI is initialized; 0 and 1 without a launcher.
struct LaunchedRank {
  int rank = 0;
  int size = 1;
  bool by_mpirun = false;         // mpirun ends all ranks when one fails
  bool on_several_hosts = false;  // whether mpirun has started ranks on several hosts
  std::string launcher{};         // name in errors: "Open MPI's mpirun"
  bool is_counted = false;        // the launcher's variables are missing: both numbers count its children
  bool is_least_size = false;     // the launcher tells no rank the number of ranks
};
// Reads the launcher's environment variables, once. If there are none, looks for a launcher among the
// ancestors.
LaunchedRank launched_rank();

// Throws CommError if a launcher started several ranks and its environment variables are missing, without
// which MPI cannot connect them. Asked before MPI starts.
void require_launcher_variables(const LaunchedRank& launched);

// Throws CommError if MPI, which calls itself `library`, says that this process is alone although a launcher
// started several. Each of them would do all the work and print all the results.
void require_own_launcher(const LaunchedRank& launched, const std::string& library);

}  // namespace tp
