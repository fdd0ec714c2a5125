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
#include <string>

#include <mpi.h>

namespace tp {
namespace {

// In a Slurm step without PMIx, Open MPI exits inside MPI_Init and advises the user to rebuild Open MPI. A
// single task does not need PMIx: Open MPI starts if the step's variables are unset.
void prepare_for_slurm() {
  if (std::getenv("SLURM_STEP_ID") == nullptr || std::getenv("PMIX_RANK") != nullptr) return;
  const char* const step = std::getenv("SLURM_STEP_NUM_TASKS");
  const int tasks = step == nullptr ? 1 : std::atoi(step);
  require<CommError>(tasks == 1,
                     "cannot start {} ranks: expected PMIx from srun, found none; start with srun --mpi=pmix",
                     tasks);
  unsetenv("SLURM_STEP_ID");
  unsetenv("SLURM_STEPID");
}

// Without mpirun, a process is alone, so Open MPI needs neither a daemon nor a folder for files shared with
// other processes. Starting the daemon takes longer than loading the demo model. All processes started
// without mpirun would share one folder, and a process that ends could remove it while another starts.
void prepare_to_start_alone() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr) return;
  ::setenv("OMPI_MCA_ess_singleton_isolated", "1", /*overwrite=*/0);
  ::setenv("OMPI_MCA_orte_create_session_dirs", "0", /*overwrite=*/0);
}

// Keeps Open MPI from loading libraries for networks that the host doesn't have: while loading, they measure
// the processor's clock for 0.2 s, which is most of the start-up time. Does nothing if the user has chosen
// how Open MPI sends messages.
void do_without_fabrics() {
  if (std::getenv("OMPI_MCA_pml") != nullptr || std::getenv("OMPI_MCA_mtl") != nullptr) return;
  if (has_fabric_device()) return;
  const std::string mtl = mtl_without_fabrics(mca_parameter_files());
  if (!mtl.empty()) ::setenv("OMPI_MCA_mtl", mtl.c_str(), /*overwrite=*/1);
}

// Seconds after which this process ends even if MPI_Abort hangs.
constexpr unsigned kAbortSeconds = 3;

// Ends this process after `seconds`, even if it is blocked.
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
  prepare_to_start_alone();
  do_without_fabrics();
  require_launcher_variables(launched_rank());
  int provided = MPI_THREAD_SINGLE;
  // Kernels use OpenMP threads, but only one thread communicates at a time: the main thread, or the
  // CommunicationThread of Overlap.
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
