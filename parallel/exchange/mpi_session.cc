#include "parallel/exchange/mpi_session.h"

#include "parallel/exchange/mpi_call.h"
#include "parallel/machine/fabric_devices.h"
#include "parallel/machine/launcher.h"
#include "parallel/machine/mca_parameters.h"
#include "tp/internal/require.h"
#include "tp/mpi.h"

#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <string>

#include <mpi.h>
#include <unistd.h>

namespace tp {
namespace {

// In a step of Slurm that has no PMIx Open MPI ends inside MPI_Init, with the advice to build it again. A
// task that is alone needs no PMIx, and Open MPI starts it where it does not notice the step.
void prepare_for_slurm() {
  if (std::getenv("SLURM_STEP_ID") == nullptr || std::getenv("PMIX_RANK") != nullptr) return;
  const char* const step = std::getenv("SLURM_STEP_NUM_TASKS");
  const int tasks = step == nullptr ? 1 : std::atoi(step);
  require<CommError>(tasks == 1,
                     "cannot start {} ranks: expected srun to offer them PMIx, and it does not; "
                     "start with srun --mpi=pmix",
                     tasks);
  unsetenv("SLURM_STEP_ID");
  unsetenv("SLURM_STEPID");
}

// For a process that mpirun has not started Open MPI starts a daemon, in case it wants to start others: that
// takes longer than the demo model takes to load.
void do_without_daemon() { ::setenv("OMPI_MCA_ess_singleton_isolated", "1", /*overwrite=*/0); }

// Whether a folder can be created there: not if the disk is full or read-only.
bool takes_folders(std::filesystem::path place) {
  std::error_code ignored;
  while (!place.empty() && !std::filesystem::exists(place, ignored)) place = place.parent_path();
  std::string name = (place / "tp-infer.XXXXXX").string();
  return ::mkdtemp(name.data()) != nullptr && ::rmdir(name.c_str()) == 0;
}

std::string variable_or(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

// Open MPI keeps files in a temporary folder. mpirun has one for its ranks; a process that starts alone gets
// another one if the usual one cannot be written.
void find_temporary_folder() {
  constexpr const char* kChosen = "OMPI_MCA_orte_tmpdir_base";
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr) return;
  const std::string usual =
      variable_or(kChosen, variable_or("TMPDIR", variable_or("TEMP", variable_or("TMP", "/tmp"))));
  if (takes_folders(usual)) return;
  for (const std::string& other :
       {std::string("/dev/shm"), std::string("/var/tmp"), variable_or("HOME", "."), std::string(".")}) {
    if (!takes_folders(other)) continue;
    ::setenv(kChosen, other.c_str(), /*overwrite=*/1);
    return;
  }
  throw_error<CommError>(
      "cannot start MPI: expected a folder for its temporary files, found that {} cannot be written; set "
      "TMPDIR to a folder "
      "that can",
      usual);
}

// As they are loaded, the libraries of networks measure the processor's clock for 0.2 s, most of a start. Who
// has chosen how Open MPI sends messages knows better.
void do_without_fabrics() {
  if (std::getenv("OMPI_MCA_pml") != nullptr || std::getenv("OMPI_MCA_mtl") != nullptr) return;
  if (has_fabric_device()) return;
  const std::string mtl = mtl_without_fabrics(mca_parameter_files());
  if (!mtl.empty()) ::setenv("OMPI_MCA_mtl", mtl.c_str(), /*overwrite=*/1);
}

// How long MPI_Abort may take.
constexpr unsigned kAbortSeconds = 3;

// Ends this process then, whatever it is waiting for.
void exit_after(unsigned seconds) {
  std::signal(SIGALRM, [](int) { std::_Exit(1); });
  sigset_t alarm_signal;
  sigemptyset(&alarm_signal);
  sigaddset(&alarm_signal, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarm_signal, nullptr);
  ::alarm(seconds);
}

}  // namespace

MpiSession::MpiSession() {
  prepare_for_slurm();
  find_temporary_folder();
  do_without_daemon();
  do_without_fabrics();
  require_launcher_variables(launched_rank());
  int provided = MPI_THREAD_SINGLE;
  // Kernels are threaded with OpenMP, but only the main thread communicates, or the one of Overlap in its
  // place.
  TP_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
  int rank = 0;
  int size = 1;
  TP_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  TP_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  rank_ = static_cast<std::size_t>(rank);
  size_ = static_cast<std::size_t>(size);
  if (size == 1) require_own_launcher(launched_rank(), mpi_library());
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() == 0) MPI_Finalize();
}

Communicator MpiSession::all_ranks(const WaitOptions& waits) const {
  return Communicator(MPI_COMM_WORLD, waits);
}

void MpiSession::abort(int status) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  exit_after(kAbortSeconds);
  if (initialized != 0) MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text, static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

}  // namespace tp
