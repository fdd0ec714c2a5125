#include "parallel/machine/launcher.h"

#include "parallel/machine/file_text.h"
#include "tp/error.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOpenMpi = "Open MPI's mpirun";
constexpr const char* kHydra = "the mpiexec of MPICH or Intel MPI";
constexpr const char* kMvapich = "MVAPICH's mpirun_rsh";
constexpr const char* kSlurm = "srun";

// The programs that start ranks. With Open MPI, these are mpirun on its own host and a daemon on every other
// host. With MPICH, a daemon starts the ranks on every host.
const std::map<std::string, const char*> kLaunchers = {
    {"mpirun", kOpenMpi}, {"mpiexec", kOpenMpi}, {"orterun", kOpenMpi},       {"prterun", kOpenMpi},
    {"orted", kOpenMpi},  {"prted", kOpenMpi},   {"hydra_pmi_proxy", kHydra}, {"slurmstepd", kSlurm}};

// Environment variables that launchers set for their ranks. Does not include SLURM_NTASKS, which Slurm also
// sets for batch scripts.
struct Variables {
  const char* launcher;
  const char* rank;
  const char* size;
};
constexpr Variables kVariables[] = {{kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    {kHydra, "PMI_RANK", "PMI_SIZE"},
                                    {kMvapich, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                    {kHydra, "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                                    {kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

std::optional<int> number_in(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional(std::atoi(value));
}

std::string name_of(pid_t process) {
  std::string name = file_text(fmt::format("/proc/{}/comm", process));
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

// The program's name before the first dot: "mpirun" for Debian's "mpirun.openmpi".
std::string launcher_name(pid_t process) {
  const std::string name = name_of(process);
  return name.substr(0, name.find('.'));
}

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const pid_t child = std::atoi(entry->path().filename().c_str());
    if (child > 0 && parent_of(child) == process) children.push_back(child);
  }
  return children;
}

bool is_daemon(const Launcher& launcher) { return launcher.name == "orted" || launcher.name == "prted"; }

// The rank is the number of older siblings with the same name. mpirun's children with other names connect to
// other hosts, where more ranks run, so they also count towards the size. A daemon implies at least one rank
// on mpirun's own host.
LaunchedRank count_children(const Launcher& launcher) {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // long enough for all ranks to start
  const std::vector<pid_t> children = children_of(launcher.process);
  const std::string name = name_of(launcher.started);
  const int before = is_daemon(launcher) ? 1 : 0;
  const auto older = std::ranges::count_if(
      children, [&](pid_t child) { return child < launcher.started && name_of(child) == name; });
  // The first rank will report the error and exit, but not before the other ranks have had time to count it.
  if (older == 0 && children.size() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(800));
  const std::string called = kLaunchers.at(launcher.name);
  return {.rank = before + static_cast<int>(older),
          .size = before + std::max(1, static_cast<int>(children.size())),
          .by_mpirun = called == kOpenMpi,
          .launcher = called,
          .is_counted = true};
}

std::optional<LaunchedRank> rank_in_variables() {
  for (const Variables& variables : kVariables) {
    const std::optional<int> size = number_in(variables.size);
    if (!size) continue;
    return LaunchedRank{.rank = number_in(variables.rank).value_or(0),
                        .size = *size,
                        .by_mpirun = variables.launcher == kOpenMpi,
                        .on_several_hosts = number_in("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(*size) < *size,
                        .launcher = fmt::format("{} ({}={})", variables.launcher, variables.size, *size)};
  }
  if (const std::optional<int> rank = number_in("PMIX_RANK"))
    return LaunchedRank{.rank = *rank,
                        .size = std::max(2, *rank + 1),
                        .launcher = "a launcher with PMIx",
                        .is_min_size = true};
  if (number_in("SLURM_PROCID")) return LaunchedRank{};  // Slurm also sets this variable for batch scripts
  return std::nullopt;
}

LaunchedRank find_launched_rank() {
  LaunchedRank found;
  if (const std::optional<LaunchedRank> launched = rank_in_variables())
    found = *launched;
  else if (const std::optional<Launcher> launcher = find_launcher())
    found = count_children(*launcher);
  found.by_srun = !found.by_mpirun && number_in("SLURM_STEP_ID").has_value();
  return found;
}

}  // namespace

pid_t parent_of(pid_t process) {
  const std::string status = file_text(fmt::format("/proc/{}/stat", process));  // "12 (name) S 11 ..."
  const std::size_t name_end = status.rfind(')');
  return name_end == std::string::npos ? 0 : std::atoi(status.c_str() + name_end + 3);
}

std::optional<Launcher> find_launcher() {
  pid_t started = ::getpid();
  for (pid_t process = ::getppid(); process > 1; process = parent_of(process)) {
    if (const std::string name = launcher_name(process); kLaunchers.contains(name))
      return Launcher{name, process, started};
    started = process;
  }
  return std::nullopt;
}

std::vector<std::string> options_of(const Launcher& launcher) {
  std::vector<std::string> words;
  std::istringstream text(file_text(fmt::format("/proc/{}/cmdline", launcher.process)));
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return options_before(program_invocation_short_name, std::move(words));
}

std::vector<std::string> options_before(std::string_view program, std::vector<std::string> command_line) {
  if (command_line.empty()) return {};
  command_line.erase(command_line.begin());
  // The value of --wdir may have the program's name, too.
  const auto is_program = [&](const std::string& word) {
    std::error_code ignored;
    return fs::path(word).filename() == program && !fs::is_directory(word, ignored);
  };
  command_line.erase(std::ranges::find_if(command_line, is_program), command_line.end());
  return command_line;
}

LaunchedRank launched_rank() {
  static const LaunchedRank found = find_launched_rank();  // once, because siblings may exit later
  return found;
}

std::string slurm_fence_warning() {
  const char* const fence = std::getenv("SLURM_PMIX_FENCE");
  const bool waits = fence != nullptr && std::string(fence) == "ring";
  const bool has_pmix = launched_rank().by_srun && number_in("PMIX_RANK");
  if (!has_pmix || waits || number_in("SLURM_STEP_NUM_NODES").value_or(1) < 2) return {};
  return "Slurm's PMIx may start ranks on several nodes before all are ready, and about one start in a "
         "hundred "
         "then crashes; export SLURM_PMIX_FENCE=ring before srun";
}

void require_launcher_variables(const LaunchedRank& launched) {
  require<CommError>(
      !launched.is_counted || launched.size <= 1,
      "cannot find the other ranks: expected the environment variables that {} gives each "
      "rank, found none; start tp-infer without env -i, sudo or anything else that removes them",
      launched.launcher);
}

void require_own_launcher(const LaunchedRank& launched, const std::string& library) {
  require<CommError>(
      !launched.has_others(),
      "cannot find the other ranks: expected the mpirun of {}, found a rank that {} started; start with the "
      "mpirun of {}, with its environment variables",
      library, launched.launcher, library);
}

}  // namespace tp
