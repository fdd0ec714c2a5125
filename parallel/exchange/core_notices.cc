#include "parallel/exchange/core_notices.h"

#include "parallel/exchange/collectives.h"
#include "parallel/machine/core_set.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

std::string text_of_count(std::size_t count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

// How to give each of a host's ranks `each` cores.
std::string advice(CoreLimit limit, std::size_t each) {
  switch (limit) {
    case CoreLimit::slurm:
      return fmt::format("give srun --cpus-per-task={}", each);
    case CoreLimit::mpirun:
      return "give mpirun --bind-to none";
    case CoreLimit::open_mp_bind:
      return "set OMP_PROC_BIND=close, or unset it";
    case CoreLimit::none:
      break;
  }
  return fmt::format("if mpirun binds ranks, give mpirun --bind-to none or --map-by slot:PE={}", each);
}

// The first rank of a host that shares too few cores with others.
std::optional<std::string> oversubscribed(const Placement& placement, const std::vector<std::size_t>& host,
                                          std::span<const CoreSet> sets, std::span<const RankThreads> ranks,
                                          bool is_crowded) {
  for (std::size_t own = 0; own < host.size(); ++own) {
    const std::vector<std::size_t> sharing = ranks_that_share(sets, own);
    const std::size_t cores = united(sets, sharing).count();
    std::size_t threads = 0;
    for (const std::size_t index : sharing) threads += ranks[host[index]].threads;
    if (threads <= (is_crowded ? std::max(cores, sharing.size()) : cores)) continue;
    const std::size_t each = ranks[host[own]].threads;
    const std::string remedy =
        threads == sharing.size()
            ? std::string("start fewer ranks, or pass --oversubscribe to mpirun")
            : fmt::format("lower the number of threads, or {}", advice(ranks[host[own]].limited.by, each));
    return fmt::format("{} on {} run{} {} on {}: oversubscribed; {}", text_of_count(sharing.size(), "rank"),
                       placement.processes[host[own]].host, sharing.size() == 1 ? "s" : "",
                       text_of_count(threads, "thread"), text_of_count(cores, "core"), remedy);
  }
  return std::nullopt;
}

// Every rank binds its first thread to the first place, and so on.
std::optional<std::string> bound_alike(const Placement& placement, const std::vector<std::size_t>& host,
                                       std::span<const CoreSet> sets, std::span<const RankThreads> ranks) {
  for (std::size_t own = 0; own < host.size(); ++own) {
    const std::size_t sharing = ranks_that_share(sets, own).size();
    if (sharing < 2 || sets[own].count() < 2 || !ranks[host[own]].is_bound) continue;
    return fmt::format(
        "OpenMP binds the threads of {} ranks on {} to the same cores; unset OMP_PROC_BIND, OMP_PLACES and "
        "GOMP_CPU_AFFINITY, and let the launcher bind ranks",
        sharing, placement.processes[host[own]].host);
  }
  return std::nullopt;
}

std::optional<std::string> one_core_of_many(const Placement& placement, const std::vector<std::size_t>& host,
                                            std::span<const CoreSet> sets,
                                            std::span<const RankThreads> ranks) {
  CoreSet used;
  for (const CoreSet& set : sets) used |= set;
  for (std::size_t own = 0; own < host.size(); ++own) {
    const LimitedCores& limited = ranks[host[own]].limited;
    const std::size_t each = limited.reachable / host.size();
    if (sets[own].count() > 1 || each < 2 || 2 * used.count() > limited.reachable) continue;
    return fmt::format("rank {} has only one of the {} cores that the job could use on {}; {}",
                       placement.processes[host[own]].rank, limited.reachable,
                       placement.processes[host[own]].host, advice(limited.by, each));
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> core_notices(const Placement& placement, std::span<const RankThreads> ranks,
                                      bool is_crowded) {
  for (const std::vector<std::size_t>& host : placement.hosts) {
    std::vector<CoreSet> sets;
    for (const std::size_t rank : host) sets.push_back(placement.processes[rank].cores);
    std::vector<std::string> notices;
    if (auto text = oversubscribed(placement, host, sets, ranks, is_crowded)) notices.push_back(*text);
    if (auto text = bound_alike(placement, host, sets, ranks)) notices.push_back(*text);
    if (auto text = one_core_of_many(placement, host, sets, ranks)) notices.push_back(*text);
    if (!notices.empty()) return notices;  // usually, the other hosts are alike
  }
  return {};
}

std::vector<std::string> core_notices(Communicator& comm, std::size_t threads) {
  const std::vector<RankThreads> ranks =
      gather_values(comm, RankThreads{threads, openmp_binds_threads(), limited_cores()});
  if (!comm.is_root()) return {};
  const bool is_crowded = std::getenv("OMPI_MCA_rmaps_base_oversubscribe") != nullptr ||
                          std::getenv("OMPI_MCA_mpi_yield_when_idle") != nullptr;
  return core_notices(comm.placement(), ranks, is_crowded);
}

}  // namespace tp
