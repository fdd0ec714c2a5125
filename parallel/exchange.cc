#include "parallel/exchange.h"

#include "parallel/mpi_call.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <climits>
#include <exception>
#include <utility>

namespace tp {
namespace {

// MPI sends as much at once; what is longer waits until the other asks for it.
constexpr std::size_t kShort = 3072;

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

Exchange::~Exchange() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // During stack unwinding the other ranks may be anywhere.
  if (finalized == 0 && std::uncaught_exceptions() == 0) {
    MPI_Waitall(static_cast<int>(posted_.requests.size()), posted_.requests.data(), MPI_STATUSES_IGNORE);
  }
}

void Exchange::all_to_all(std::span<const ConstBytes> to, std::span<const Bytes> from,
                          const Wait::Manner& manner) {
  exchanged_.clear();
  // Each begins with its neighbour, so that not all send to the same rank first.
  for (std::size_t step = 1; step < size(); ++step) {
    const std::size_t source = (rank_ + size() - step) % size();
    receive(source, from[source], exchanged_);
  }
  for (std::size_t step = 1; step < size(); ++step) {
    const std::size_t target = (rank_ + step) % size();
    send(target, to[target], exchanged_);
  }
  wait_for(exchanged_, manner);
}

void Exchange::to_all(ConstBytes own, std::span<const Bytes> from, const Wait::Manner& manner) {
  all_to_all(std::vector<ConstBytes>(size(), own), from, manner);
}

void Exchange::post_to_all(ConstBytes bytes, const Wait::Manner& manner) {
  wait_for(posted_, manner);
  posted_.clear();
  const bool is_short = bytes.size() <= kShort;
  if (is_short) posted_bytes_.assign(bytes.begin(), bytes.end());
  for (std::size_t step = 1; step < size(); ++step)
    send((rank_ + step) % size(), is_short ? ConstBytes(posted_bytes_) : bytes, posted_);
  if (!is_short) wait_for(posted_, manner);
}

void Exchange::progress() {
  if (!posted_.requests.empty() && posted_.arrived()) posted_.clear();
}

void Exchange::receive(std::size_t source, Bytes bytes, Messages& messages) const {
  if (bytes.empty()) return;
  messages.requests.push_back(MPI_REQUEST_NULL);
  messages.partners.push_back(source);
  TP_MPI(MPI_Irecv(bytes.data(), count_of(bytes.size()), MPI_BYTE, static_cast<int>(source), kTag, comm_,
                   &messages.requests.back()));
}

void Exchange::send(std::size_t target, ConstBytes bytes, Messages& messages) const {
  if (bytes.empty()) return;
  messages.requests.push_back(MPI_REQUEST_NULL);
  messages.partners.push_back(target);
  TP_MPI(MPI_Isend(bytes.data(), count_of(bytes.size()), MPI_BYTE, static_cast<int>(target), kTag, comm_,
                   &messages.requests.back()));
}

void Exchange::Messages::clear() {
  requests.clear();
  partners.clear();
}

bool Exchange::Messages::arrived() {
  int all = 0;
  TP_MPI(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE));
  return all != 0;
}

void Exchange::wait_for(Messages& messages, const Wait::Manner& manner) {
  if (messages.arrived()) return;
  Wait wait(patience_, manner, together_, [&] { return missing(messages); });
  while (!messages.arrived()) wait.turn();
}

Wait::Ranks Exchange::missing(const Messages& messages) const {
  Wait::Ranks ranks;
  for (std::size_t i = 0; i < messages.requests.size(); ++i) {
    int complete = 0;
    TP_MPI(MPI_Request_get_status(messages.requests[i], &complete, MPI_STATUS_IGNORE));
    const Wait::Ranks& partner = members_[messages.partners[i]];
    if (complete == 0) ranks.insert(ranks.end(), partner.begin(), partner.end());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace tp
