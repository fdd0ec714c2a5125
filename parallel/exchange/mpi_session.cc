#include "parallel/exchange/mpi_session.h"

#include "parallel/exchange/mpi_call.h"
#include "parallel/machine/fabric_devices.h"
#include "parallel/machine/launcher.h"
#include "parallel/machine/mca_parameters.h"
#include "tp/internal/require.h"
#include "tp/mpi.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

namespace tp {
namespace {

// The interface by which srun connects ranks, its name for srun, and variables of which it sets one.
struct SlurmInterface {
  const char* name;
  const char* plugin;
  std::vector<const char*> variables;
};
SlurmInterface interface_of_mpi() {
#if defined(OPEN_MPI)
  return {"PMIx", "pmix", {"PMIX_RANK"}};
#else
  // MPICH and its relatives. PMI_CONTROL_PORT is Cray's.
  return {"PMI-2", "pmi2", {"PMI_FD", "PMI_RANK", "PMI_CONTROL_PORT", "PMIX_RANK"}};
#endif
}

// In a Slurm step without PMIx, Open MPI exits inside MPI_Init and advises the user to rebuild Open MPI.
// MPICH starts each rank alone. A single task does not need an interface: Open MPI starts if the step's
// variables are unset.
void prepare_for_slurm() {
  if (std::getenv("SLURM_STEP_ID") == nullptr) return;
  const SlurmInterface expected = interface_of_mpi();
  if (std::ranges::any_of(expected.variables, [](const char* name) { return std::getenv(name) != nullptr; }))
    return;
  const char* const step = std::getenv("SLURM_STEP_NUM_TASKS");
  const int tasks = step == nullptr ? 1 : std::atoi(step);
  require<CommError>(tasks == 1,
                     "cannot start {} ranks: expected {} from srun, found none; start with srun --mpi={}",
                     tasks, expected.name, expected.plugin);
  unsetenv("SLURM_STEP_ID");
  unsetenv("SLURM_STEPID");
}

// A value of an environment variable as long as this object exists; nullptr leaves the variable alone.
class VariableOfMpi {
 public:
  VariableOfMpi(const char* name, const char* value) : name_(value == nullptr ? nullptr : name) {
    if (name_ == nullptr) return;
    if (const char* const before = std::getenv(name_); before != nullptr) before_ = before;
    ::setenv(name_, value, /*overwrite=*/1);
  }
  ~VariableOfMpi() {
    if (name_ == nullptr) return;
    ::unsetenv(name_);
    if (before_) ::setenv(name_, before_->c_str(), /*overwrite=*/1);
  }
  VariableOfMpi(const VariableOfMpi&) = delete;
  VariableOfMpi& operator=(const VariableOfMpi&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// Open MPI 5 does not start without HOME. Some services have none.
const char* home_for_mpi() { return std::getenv("HOME") == nullptr ? "/" : nullptr; }

bool starts_alone() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr && std::getenv("PMIX_RANK") == nullptr;
}

// Open MPI's own folder is that of all processes of a user.
bool can_have_folders(const std::string& folder) {
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  const std::string_view name(host);
  const std::filesystem::path of_mpi =
      fmt::format("{}/ompi.{}.{}", folder, name.substr(0, name.find('.')), ::geteuid());
  std::error_code error;
  if (std::filesystem::exists(of_mpi, error) && !std::filesystem::is_directory(of_mpi, error)) return false;
  std::string made = folder + "/tp-infer-XXXXXX";
  return ::mkdtemp(made.data()) != nullptr && ::rmdir(made.c_str()) == 0;
}

// Open MPI 5 makes a folder for a process that is alone, too, and crashes where it cannot, as on a full disk.
const char* temporary_folder_for_mpi() {
  if (!starts_alone()) return nullptr;
  const char* const given = std::getenv("TMPDIR");
  return can_have_folders(given == nullptr ? "/tmp" : given) ? nullptr : "/dev/shm";
}

// Without mpirun, a process is alone, so Open MPI needs neither a daemon nor a folder for files shared with
// other processes. Starting the daemon takes longer than loading the demo model. All processes started
// without mpirun would share one folder, and a process that ends could remove it while another starts.
void prepare_to_start_alone() {
  if (!starts_alone()) return;
  ::setenv("OMPI_MCA_ess_singleton_isolated", "1", /*overwrite=*/0);
  ::setenv("OMPI_MCA_orte_create_session_dirs", "0", /*overwrite=*/0);
}

// Keeps Open MPI from using `components` of a framework. Does nothing if the user has chosen how Open MPI
// sends messages.
void do_without(std::string_view components, const std::string& framework) {
  const std::string variable = "OMPI_MCA_" + framework;
  if (std::getenv("OMPI_MCA_pml") != nullptr || std::getenv(variable.c_str()) != nullptr) return;
  const std::string value = mca_without(components, framework, mca_parameter_files());
  if (!value.empty()) ::setenv(variable.c_str(), value.c_str(), /*overwrite=*/1);
}

// Whether Open MPI 5 has started all ranks on this host, with room for their shared memory.
bool needs_no_tcp() {
  constexpr std::uintmax_t kSegment = 64U << 20U;  // bytes; more than Open MPI's default for a rank
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* const local_size = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (std::getenv("PRTE_LAUNCHED") == nullptr || size == nullptr || local_size == nullptr) return false;
  std::error_code error;
  const std::filesystem::space_info room = std::filesystem::space("/dev/shm", error);
  return std::string_view(size) == local_size && !error &&
         room.available / kSegment >= static_cast<std::uintmax_t>(std::max(1, std::atoi(size)));
}

// Excludes what the job cannot use. Libraries for networks that the host doesn't have measure the processor's
// clock for 0.2 s, which is most of the start-up time. On Debian 13, Open MPI 5's TCP cannot find a way from
// a host to itself, and each rank says so.
void do_without_useless_networks() {
  if (!has_fabric_device()) do_without("psm,psm2,ofi", "mtl");
  if (needs_no_tcp()) do_without("tcp", "btl");
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
  do_without_useless_networks();
  require_launcher_variables(launched_rank());
  int provided = MPI_THREAD_SINGLE;
  // Kernels use OpenMP threads, but only one thread communicates at a time: the main thread, or the
  // CommunicationThread of Overlap.
  {
    const VariableOfMpi home("HOME", home_for_mpi());
    const VariableOfMpi folder("TMPDIR", temporary_folder_for_mpi());
    TP_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
  }
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
  std::string name = whole.substr(0, whole.find_first_of(",\n"));
  constexpr std::string_view kLabel = " Version:\t";  // MPICH's
  if (const std::size_t place = name.find(kLabel); place != name.npos)
    name.replace(place, kLabel.size(), " ");
  return name;
}

}  // namespace tp
