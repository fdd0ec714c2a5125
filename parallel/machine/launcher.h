// The program that started this process as a rank: mpirun, mpiexec or srun.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

namespace tp {

// The parent of a process, or 0 if unknown.
pid_t parent_of(pid_t process);

// The nearest ancestor of this process that is a launcher.
struct Launcher {
  std::string name;   // program name: "mpirun", "hydra_pmi_proxy", "slurmstepd"
  pid_t process = 0;  // process id of mpirun, or of its daemon on this host
  pid_t started = 0;  // the launcher's child: this process, or a script that runs it
};
std::optional<Launcher> find_launcher();

// This process's rank and the number of ranks, known before MPI is initialized. Without a launcher, they are
// 0 and 1.
struct LaunchedRank {
  int rank = 0;
  int size = 1;
  bool by_mpirun = false;         // whether mpirun started this rank; it ends all ranks when one fails
  bool on_several_hosts = false;  // whether mpirun has started ranks on several hosts
  std::string launcher{};         // name in errors: "Open MPI's mpirun"
  bool is_counted = false;        // whether rank and size were found by counting the launcher's children
  bool is_least_size = false;  // whether size is only a lower bound, because the launcher does not report it
};
// Reads the launcher's environment variables. If there are none, searches this process's ancestors for a
// launcher. Later calls return the result of the first.
LaunchedRank launched_rank();

// Throws CommError if a launcher started several ranks but its environment variables are missing: MPI needs
// them to connect the ranks. Call this function before MPI starts.
void require_launcher_variables(const LaunchedRank& launched);

// Throws CommError if MPI, whose name is `library`, sees only this process although a launcher started
// several ranks. Otherwise, every rank would do all the work and print all the results.
void require_own_launcher(const LaunchedRank& launched, const std::string& library);

}  // namespace tp
