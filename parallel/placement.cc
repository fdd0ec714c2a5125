#include "parallel/placement.h"

#include "parallel/mpi_call.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <unistd.h>

namespace tp {
namespace {

// What a rank tells the others of itself.
struct Card {
  std::int64_t process = 0;
  std::int32_t first_of_host = 0;  // the lowest rank on its host
  char host[64] = "";              // cut short if need be
};

int first_of_host(MPI_Comm comm, int group, int rank) {
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm host = MPI_COMM_NULL;
  TP_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine));
  TP_MPI(MPI_Comm_split(machine, group, rank, &host));
  int first = rank;
  TP_MPI(MPI_Bcast(&first, 1, MPI_INT, 0, host));
  TP_MPI(MPI_Comm_free(&host));
  TP_MPI(MPI_Comm_free(&machine));
  return first;
}

}  // namespace

Placement find_placement(MPI_Comm comm, int group) {
  int rank = 0;
  int size = 1;
  TP_MPI(MPI_Comm_rank(comm, &rank));
  TP_MPI(MPI_Comm_size(comm, &size));
  Card own{.process = ::getpid(), .first_of_host = first_of_host(comm, group, rank)};
  ::gethostname(own.host, sizeof(own.host) - 1);
  std::vector<Card> cards(static_cast<std::size_t>(size));
  TP_MPI(MPI_Allgather(&own, sizeof(Card), MPI_BYTE, cards.data(), sizeof(Card), MPI_BYTE, comm));

  Placement placement;
  placement.rank = static_cast<std::size_t>(rank);
  for (std::size_t other = 0; other < cards.size(); ++other) {
    const auto first = static_cast<std::size_t>(cards[other].first_of_host);
    if (first == other) placement.hosts.emplace_back();
    const std::size_t host = first == other ? placement.hosts.size() - 1 : placement.host_of[first];
    placement.hosts[host].push_back(other);
    placement.host_of.push_back(host);
    placement.processes.push_back({cards[other].process, cards[other].host});
  }
  return placement;
}

bool is_stopped(std::int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // "4711 (name, which may hold brackets) T ..."
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

}  // namespace tp
