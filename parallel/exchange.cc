#include "parallel/exchange.h"

#include "parallel/mpi_call.h"
#include "tp/error.h"

#include <algorithm>
#include <climits>
#include <utility>

namespace tp {
namespace {

constexpr int kTag = 0;  // messages between two ranks arrive in the order in which they were sent

int count_of(std::size_t bytes) {
  require<CommError>(bytes <= INT_MAX, "a message of {} bytes is too large, MPI counts up to {}", bytes,
                     INT_MAX);
  return static_cast<int>(bytes);
}

std::vector<Wait::Ranks> each_for_itself(std::size_t ranks) {
  std::vector<Wait::Ranks> members;
  for (std::size_t rank = 0; rank < ranks; ++rank) members.push_back({rank});
  return members;
}

}  // namespace

Exchange::Exchange(MPI_Comm comm, const Patience& patience)
    : Exchange(comm, patience, each_for_itself(patience.placement.size())) {}

Exchange::Exchange(MPI_Comm comm, const Patience& patience, std::vector<Wait::Ranks> members)
    : comm_(comm), patience_(patience), members_(std::move(members)) {
  int rank = 0;
  TP_MPI(MPI_Comm_rank(comm, &rank));
  rank_ = static_cast<std::size_t>(rank);
  for (const Wait::Ranks& each : members_) together_.push_back(each.front());
}

void Exchange::all_to_all(std::span<const ConstBytes> to, std::span<const Bytes> from,
                          const Wait::Manner& manner) {
  requests_.clear();
  partners_.clear();
  // Each begins with its right neighbour, so that not all send to the same rank first.
  for (std::size_t step = 1; step < size(); ++step) {
    const std::size_t source = (rank_ + size() - step) % size();
    if (from[source].empty()) continue;
    requests_.push_back(MPI_REQUEST_NULL);
    partners_.push_back(source);
    TP_MPI(MPI_Irecv(from[source].data(), count_of(from[source].size()), MPI_BYTE, static_cast<int>(source),
                     kTag, comm_, &requests_.back()));
  }
  for (std::size_t step = 1; step < size(); ++step) {
    const std::size_t target = (rank_ + step) % size();
    if (to[target].empty()) continue;
    requests_.push_back(MPI_REQUEST_NULL);
    partners_.push_back(target);
    TP_MPI(MPI_Isend(to[target].data(), count_of(to[target].size()), MPI_BYTE, static_cast<int>(target), kTag,
                     comm_, &requests_.back()));
  }
  const auto done = [this] {
    int all = 0;
    TP_MPI(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE));
    return all != 0;
  };
  if (done()) return;
  Wait wait(patience_, manner, together_, [this] { return missing(); });
  while (!done()) wait.turn();
}

void Exchange::to_all(ConstBytes own, std::span<const Bytes> from, const Wait::Manner& manner) {
  all_to_all(std::vector<ConstBytes>(size(), own), from, manner);
}

Wait::Ranks Exchange::missing() {
  Wait::Ranks ranks;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    int complete = 0;
    TP_MPI(MPI_Request_get_status(requests_[i], &complete, MPI_STATUS_IGNORE));
    if (complete == 0)
      ranks.insert(ranks.end(), members_[partners_[i]].begin(), members_[partners_[i]].end());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace tp
