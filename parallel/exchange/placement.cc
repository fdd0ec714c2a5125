#include "parallel/exchange/placement.h"

#include "parallel/exchange/mpi_call.h"
#include "parallel/machine/file_text.h"
#include "parallel/machine/hash.h"
#include "parallel/machine/host_cores.h"
#include "parallel/machine/processors.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tp {
namespace {

// A rank's data about itself, which it sends to the other ranks.
struct Card {
  std::int64_t process = 0;
  std::uint64_t mark = 0;  // see mark_of_host
  char host[64] = "";      // truncated if too long
  CoreSet cores{};
};

// Identifies a host by a hash of the group, host name, running kernel and /dev/shm. MPI_COMM_TYPE_SHARED
// would not work: if two hosts have the same name, it gives their ranks inconsistent groups.
std::uint64_t mark_of_host(const std::string& name, int group) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat memory {};
  ::stat("/dev/shm", &memory);
  return hash_of(fmt::format("{} {} {} {} {}", group, name, boot, memory.st_dev, memory.st_ino));
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

// Processes with the same mark share a host.
Placement placed(std::vector<Placement::Process> processes, std::span<const std::uint64_t> marks,
                 std::size_t own) {
  Placement placement;
  placement.rank = own;
  std::vector<std::uint64_t> marks_of_hosts;
  for (std::size_t rank = 0; rank < marks.size(); ++rank) {
    const auto known = std::ranges::find(marks_of_hosts, marks[rank]);
    const auto host = static_cast<std::size_t>(known - marks_of_hosts.begin());
    if (known == marks_of_hosts.end()) {
      marks_of_hosts.push_back(marks[rank]);
      placement.hosts.emplace_back();
    }
    placement.hosts[host].push_back(rank);
    placement.host_of.push_back(host);
  }
  placement.processes = std::move(processes);
  return placement;
}

std::size_t core_share_of(const Placement& placement) {
  std::vector<CoreSet> sets;
  for (const std::size_t rank : placement.own_host()) sets.push_back(placement.processes[rank].cores);
  const auto own = std::ranges::find(placement.own_host(), placement.rank) - placement.own_host().begin();
  return fair_share(sets, static_cast<std::size_t>(own));
}

}  // namespace

Placement find_placement(MPI_Comm comm, int group) {
  int rank = 0;
  int size = 1;
  TP_MPI(MPI_Comm_rank(comm, &rank));
  TP_MPI(MPI_Comm_size(comm, &size));
  const std::string name = host_name();
  Card own{.process = ::getpid(),
           .mark = mark_of_host(name, group),
           .cores = cores_of(host_topology(), allowed_set().get())};
  name.copy(own.host, sizeof(own.host) - 1);
  std::vector<Card> cards(static_cast<std::size_t>(size));
  TP_MPI(MPI_Allgather(&own, sizeof(Card), MPI_BYTE, cards.data(), sizeof(Card), MPI_BYTE, comm));

  std::vector<Placement::Process> processes;
  std::vector<std::uint64_t> marks;
  for (std::size_t other = 0; other < cards.size(); ++other) {
    processes.push_back({cards[other].process, cards[other].host, other, cards[other].cores});
    marks.push_back(cards[other].mark);
  }
  Placement placement = placed(std::move(processes), marks, static_cast<std::size_t>(rank));
  placement.processes_here = placement.own_host().size();
  placement.core_share = core_share_of(placement);
  return placement;
}

Placement Placement::restricted_to(std::span<const std::size_t> ranks) const {
  std::vector<Process> members;
  std::vector<std::uint64_t> hosts_of_members;
  for (const std::size_t member : ranks) {
    members.push_back(processes[member]);
    hosts_of_members.push_back(host_of[member]);
  }
  const auto own = static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
  Placement group = placed(std::move(members), hosts_of_members, own);
  group.processes_here = processes_here;
  group.core_share = core_share;
  return group;
}

std::size_t default_threads(const Placement& placement) {
  return default_threads(placement.core_share, placement.processes_here);
}

bool is_stopped(std::int64_t process) {
  const std::string text = file_text("/proc/" + std::to_string(process) + "/stat");
  // "4711 (name, which may contain parentheses) T ..."
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

}  // namespace tp
