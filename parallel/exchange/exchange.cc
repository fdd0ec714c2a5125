#include "parallel/exchange/exchange.h"

#include "parallel/exchange/mpi_call.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace tp {
namespace {

// Bytes; MPI sends messages up to this size without waiting for the receiver.
constexpr std::size_t kShort = 3072;

constexpr int kTag = 0;  // messages with the same tag between two ranks arrive in order

std::vector<Wait::Ranks> each_for_itself(std::size_t ranks) {
  std::vector<Wait::Ranks> members;
  for (std::size_t rank = 0; rank < ranks; ++rank) members.push_back({rank});
  return members;
}

}  // namespace

Exchange::Exchange(MPI_Comm comm, const Patience& patience)
    : Exchange(comm, patience, each_for_itself(patience.placement.size())) {}

Exchange::Exchange(MPI_Comm comm, const Patience& patience, std::vector<Wait::Ranks> members,
                   std::size_t longest)
    : comm_(comm), patience_(patience), members_(std::move(members)), longest_(longest) {
  int rank = 0;
  TP_MPI(MPI_Comm_rank(comm, &rank));
  rank_ = static_cast<std::size_t>(rank);
  for (const Wait::Ranks& each : members_) together_.push_back(each.front());
}

Exchange::~Exchange() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // Doesn't wait during stack unwinding, because the other ranks may never receive the messages.
  if (finalized == 0 && std::uncaught_exceptions() == 0) {
    MPI_Waitall(static_cast<int>(posted_.requests_.size()), posted_.requests_.data(), MPI_STATUSES_IGNORE);
  }
}

void Exchange::all_to_all(std::span<const ConstBytes> to, std::span<const Bytes> from,
                          const Wait::Manner& manner) {
  begin_all_to_all(to, from, kTag, exchanged_);
  wait_for(exchanged_, manner);
}

void Exchange::begin_all_to_all(std::span<const ConstBytes> to, std::span<const Bytes> from, int tag,
                                Messages& messages) {
  messages.clear();
  // Each rank begins with its neighbour; otherwise, all ranks would send to rank 0 first.
  for (std::size_t step = 1; step < size(); ++step) {
    const std::size_t source = (rank_ + size() - step) % size();
    receive(source, from[source], tag, messages);
  }
  for (std::size_t step = 1; step < size(); ++step) {
    const std::size_t target = (rank_ + step) % size();
    send(target, to[target], tag, messages);
  }
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
    send((rank_ + step) % size(), is_short ? ConstBytes(posted_bytes_) : bytes, kTag, posted_);
  if (!is_short) wait_for(posted_, manner);
}

void Exchange::progress() {
  if (!posted_.requests_.empty() && posted_.arrived()) posted_.clear();
}

void Exchange::receive(std::size_t source, Bytes bytes, int tag, Messages& messages) const {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(longest_, bytes.size()))) {
    const Bytes part = bytes.first(std::min(longest_, bytes.size()));
    messages.requests_.push_back(MPI_REQUEST_NULL);
    messages.partners_.push_back(source);
    TP_MPI(MPI_Irecv(part.data(), static_cast<int>(part.size()), MPI_BYTE, static_cast<int>(source), tag,
                     comm_, &messages.requests_.back()));
  }
}

void Exchange::send(std::size_t target, ConstBytes bytes, int tag, Messages& messages) const {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(longest_, bytes.size()))) {
    const ConstBytes part = bytes.first(std::min(longest_, bytes.size()));
    messages.requests_.push_back(MPI_REQUEST_NULL);
    messages.partners_.push_back(target);
    TP_MPI(MPI_Isend(part.data(), static_cast<int>(part.size()), MPI_BYTE, static_cast<int>(target), tag,
                     comm_, &messages.requests_.back()));
  }
}

void Exchange::Messages::clear() {
  requests_.clear();
  partners_.clear();
}

bool Exchange::Messages::arrived() {
  int all = 0;
  TP_MPI(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE));
  return all != 0;
}

void Exchange::wait_for(Messages& messages, const Wait::Manner& manner) {
  wait_until([&] { return messages.arrived(); }, messages, manner);
}

void Exchange::wait_until(const std::function<bool()>& done, const Messages& messages,
                          const Wait::Manner& manner) {
  if (done()) return;
  Wait wait(patience_, manner, together_, [&] { return missing(messages); });
  while (!done()) wait.turn();
}

Wait::Ranks Exchange::missing(const Messages& messages) const {
  Wait::Ranks ranks;
  for (std::size_t i = 0; i < messages.requests_.size(); ++i) {
    int complete = 0;
    TP_MPI(MPI_Request_get_status(messages.requests_[i], &complete, MPI_STATUS_IGNORE));
    const Wait::Ranks& partner = members_[messages.partners_[i]];
    if (complete == 0) ranks.insert(ranks.end(), partner.begin(), partner.end());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace tp
