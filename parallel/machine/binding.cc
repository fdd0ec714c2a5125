#include "parallel/machine/binding.h"

#include "parallel/machine/launcher.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

namespace tp {
namespace {

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

bool user_chose_processors() {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (chooses_processors(*variable)) return true;
  }
  return false;
}

// The cores that mpirun, or its daemon on this host, may use: the binding of the nearest ancestor that is
// bound differently from this process. The parent may be a script with the same binding as this process.
ProcessorSet launcher_set(const ProcessorSet& bound) {
  ProcessorSet set(hwloc_bitmap_dup(bound.get()));
  for (pid_t process = getppid(); process > 1 && hwloc_bitmap_isequal(set.get(), bound.get()) != 0;
       process = parent_of(process)) {
    if (hwloc_get_proc_cpubind(host_topology(), process, set.get(), 0) != 0) break;
  }
  return set;
}

// Open MPI 5 tells its ranks neither that they are bound nor why. The command line of mpirun, which is
// prterun, says whether the user asked for it. Where only a daemon runs on this host, nothing does.
bool is_bound_by_prterun() {
  const std::optional<Launcher> launcher = find_launcher();
  if (!launcher || launcher->name != "prterun") return false;
  return !options_choose_processors(options_of(*launcher));
}

bool is_bound_by_default() {
  return (is_set("OMPI_MCA_orte_bound_at_launch") || is_bound_by_prterun()) && !user_chose_processors();
}

std::size_t cores_in(const ProcessorSet& processors) {
  return count_cores(numa_domains(host_topology(), processors.get()));
}

// Cores of the host, or more if Slurm's control group hides some of the job's cores from a step.
std::size_t cores_of_slurm_job() {
  const hwloc_topology_t host = host_topology();
  const hwloc_const_cpuset_t all = hwloc_topology_get_topology_cpuset(host);
  const std::size_t cores = count_cores(numa_domains(host, all));
  const auto threads = static_cast<std::size_t>(std::max(1, hwloc_bitmap_weight(all)));
  const char* const job = std::getenv("SLURM_JOB_CPUS_PER_NODE");
  return std::max(cores, first_count(job == nullptr ? "" : job) * cores / threads);
}

std::optional<WidenedBinding> widen() {
  // OpenMP has chosen its places within the binding before main starts.
  if (!is_bound_by_default() || openmp_binds_threads()) return std::nullopt;
  const char* rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  const char* size = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (rank == nullptr || size == nullptr) return std::nullopt;
  const TpRank tp{std::strtoul(rank, nullptr, 10), std::max(1UL, std::strtoul(size, nullptr, 10))};

  const ProcessorSet bound = allowed_set();
  const std::vector<Core> cores = wider_binding(host_topology(), bound.get(), launcher_set(bound).get(), tp);
  if (cores.empty()) return std::nullopt;
  const ProcessorSet wider(hwloc_bitmap_alloc());
  for (const Core& core : cores) {
    for (const unsigned processor : core) hwloc_bitmap_set(wider.get(), processor);
  }
  if (hwloc_set_cpubind(host_topology(), wider.get(), HWLOC_CPUBIND_PROCESS) != 0) return std::nullopt;
  return WidenedBinding{cores_in(bound), cores.size()};
}

}  // namespace

const std::optional<WidenedBinding>& widen_default_binding() {
  static const std::optional<WidenedBinding> widened = widen();
  return widened;
}

bool openmp_binds_threads() { return omp_get_proc_bind() != omp_proc_bind_false; }

LimitedCores limited_cores() {
  const auto is_value_of = [](const char* variable, std::string_view value) {
    const char* const text = std::getenv(variable);
    return text != nullptr && text == value;
  };
  if (launched_rank().by_srun && !is_value_of("SLURM_CPUS_PER_TASK", "1"))
    return {CoreLimit::slurm, cores_of_slurm_job()};
  if (omp_get_proc_bind() == omp_proc_bind_master)
    return {CoreLimit::open_mp_bind, cores_in(openmp_places())};
  if (is_bound_by_default()) return {CoreLimit::mpirun, cores_in(launcher_set(allowed_set()))};
  return {};
}

std::size_t first_count(std::string_view list) {
  std::size_t count = 0;
  std::from_chars(list.data(), list.data() + list.size(), count);
  return count;
}

bool chooses_processors(std::string_view setting) {
  std::string text(setting);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  // --bind-to, --cpu-set, --cpu-list, --rankfile; the parameters of Open MPI 5 begin with prte
  for (const char* name : {"ompi_mca_hwloc_base_", "ompi_mca_orte_rankfile", "prte_mca_hwloc_", "--bind-to",
                           "-bind-to", "--cpu-set", "--cpu-list", "--rankfile", "--rf="}) {
    if (text.starts_with(name)) return true;
  }
  // --map-by with a part of a host ("socket") or a number of cores per rank ("slot:pe=4").
  constexpr std::array kMappings = {"ompi_mca_rmaps_", "prte_mca_rmaps_", "--map-by"};
  if (std::ranges::none_of(kMappings, [&](const char* name) { return text.starts_with(name); })) return false;
  constexpr std::array kParts = {"hwthread", "core", "cache", "numa", "socket",   "package",
                                 "board",    "dist", "pe=",   "cpus", "pe-list=", "rankfile"};
  return std::ranges::any_of(kParts, has);
}

bool options_choose_processors(const std::vector<std::string>& options) {
  const auto word = [&](std::size_t i) { return i < options.size() ? options[i] : std::string(); };
  for (std::size_t i = 0; i < options.size(); ++i) {
    // --mca NAME VALUE and --prtemca NAME VALUE set a parameter.
    const bool is_parameter = options[i] == "--mca" || options[i] == "--prtemca";
    if (chooses_processors(is_parameter ? fmt::format("prte_mca_{}={}", word(i + 1), word(i + 2))
                                        : fmt::format("{}={}", options[i], word(i + 1))))
      return true;
  }
  return false;
}

std::vector<Core> wider_binding(hwloc_topology_t topology, hwloc_const_cpuset_t bound,
                                hwloc_const_cpuset_t available, TpRank tp) {
  std::vector<Core> share = share_of_cores(numa_domains(topology, available), tp);
  if (share.size() <= count_cores(numa_domains(topology, bound))) share.clear();
  return share;
}

}  // namespace tp
