// The program that started this process as a rank: mpirun, mpiexec or srun.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace tp {

// The parent's process id, or 0 if unknown.
pid_t parent_of(pid_t process);

// The nearest ancestor of this process that is a launcher.
struct Launcher {
  std::string name;   // program name: "mpirun", "hydra_pmi_proxy", "slurmstepd"
  pid_t process = 0;  // process id of the launcher, or of its daemon on this host
  pid_t started = 0;  // process id of the launcher's child: this process, or a script that runs it
};
std::optional<Launcher> find_launcher();

// The launcher's own options: the words between its name and that of this program on its command line, or all
// words after its name if a script starts this program. Empty if unknown.
std::vector<std::string> options_of(const Launcher& launcher);
// Returns the launcher's own options of a command line. `program`: a file name.
std::vector<std::string> options_before(std::string_view program, std::vector<std::string> command_line);

// This process's rank and the number of ranks, before MPI is initialized. Without a launcher: 0 and 1.
struct LaunchedRank {
  int rank = 0;
  int size = 1;
  bool by_mpirun = false;         // whether mpirun, which ends all ranks if one fails, started this rank
  bool by_srun = false;           // whether srun started this rank
  bool on_several_hosts = false;  // whether mpirun has started ranks on several hosts
  std::string launcher{};         // the launcher's name for error messages: "Open MPI's mpirun"
  bool is_counted = false;        // whether rank and size were found by counting the launcher's children
  bool is_min_size = false;  // whether size is only a lower bound, because the launcher does not report it

  // Whether the launcher has certainly started other ranks, too.
  bool has_others() const { return size > 1 && !(is_min_size && rank == 0); }
};
// Reads the launcher's environment variables. If there are none, searches this process's ancestors for a
// launcher. Later calls return the result of the first. Call this function before MPI starts, because Open
// MPI may remove SLURM_STEP_ID.
LaunchedRank launched_rank();

// A warning if Slurm's PMIx may let ranks on several nodes start before their peers are ready; empty if not.
// Its barrier does not wait (SLURM_PMIX_FENCE other than "ring"), so that Open MPI occasionally crashes in
// MPI_Init: Slurm hands TreeWidth to a tree whose nodes then have neither parent nor children
// (open-mpi/ompi#12495). Call this function before MPI starts.
std::string slurm_fence_warning();

// Throws CommError if a launcher started several ranks but its environment variables are missing: MPI needs
// them to connect the ranks. Call this function before MPI starts.
void require_launcher_variables(const LaunchedRank& launched);

// Call it if MPI sees only this process. Throws CommError if a launcher started several ranks: each of them
// would do all the work and print all the results. `library` is the name of the MPI library.
void require_own_launcher(const LaunchedRank& launched, const std::string& library);

}  // namespace tp
