// The sum over ranks: through shared memory within a host, over the wire between hosts.
#pragma once

#include "parallel/exchange/exchange.h"
#include "parallel/exchange/host_roots.h"
#include "parallel/exchange/message_all_reduce.h"
#include "parallel/exchange/shared_memory_all_reduce.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

namespace tp {

// All implementations add in the same order, so that the bits of a sum depend only on the ranks and their
// hosts: first the addends of each host, in rank order; then the hosts' sums, in the order of their lowest
// ranks; last, if there is one, the target that the sum is added to.
class AllReduce {
 public:
  // Collective over `comm`. TP_ALL_REDUCE=messages in rank 0's environment disables shared memory, and sends
  // each rank's addend between hosts. Throws CommError, and ConfigError if the variable is neither `messages`
  // nor `shared`.
  AllReduce(MPI_Comm comm, const Patience& patience, Exchange& exchange);

  // The sum over ranks, to `target`, which may be the floats of `addend`. Every rank passes the same number
  // of elements, floats or doubles; a sum of doubles is rounded last.
  template <class T>
  void operator()(std::span<const T> addend, const SumTarget& target) {
    if (shared_ != nullptr) {
      (*shared_)(addend, target);
    } else if (host_roots_ && ranks_are_alone_) {
      (*host_roots_->wire())(addend, target);
    } else {
      messages_(addend, target);
    }
  }

  // Prepares sums over several hosts: chooses how they cross the wire, by measuring it, and as which type.
  // Collective. Throws CommError, and ConfigError on every rank if values are to be rounded but each rank's
  // are sent, because a host has no shared memory.
  void prepare_wire(WireType type);

  // Why sums do not use shared memory although ranks share a host; empty if they do.
  const std::string& not_shared_because() const { return not_shared_because_; }

  // The shared memory that this rank reads most; nothing if sums use messages.
  std::vector<std::span<const std::byte>> shared_memory() const {
    return shared_ == nullptr ? std::vector<std::span<const std::byte>>() : shared_->own_memory();
  }

  // The implementations: shared() is used if it is not null, else wire() where every rank has a host of its
  // own, else messages(). With shared(), wire() is what host roots exchange, and null elsewhere.
  SharedMemoryAllReduce* shared() { return shared_.get(); }
  WireAllReduce* wire() { return host_roots_ ? host_roots_->wire() : nullptr; }
  MessageAllReduce& messages() { return messages_; }

 private:
  static bool is_forced_to_messages();

  Exchange& exchange_;
  std::size_t hosts_;
  MessageAllReduce messages_;
  bool ranks_are_alone_;  // on their hosts
  std::optional<HostRoots> host_roots_;
  std::unique_ptr<SharedMemoryAllReduce> shared_;
  std::string not_shared_because_;
};

}  // namespace tp
