// Sums over ranks: through shared memory within a host, over the wire between hosts.
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

// All implementations add in the same order. With the same addends and wire type, the bits of a sum therefore
// depend only on which ranks share a host. Each host first adds its ranks' addends, in rank order. Then the
// hosts' sums are added, in the order of their lowest ranks. With SumTarget::adds, the target's previous
// values are added last.
class AllReduce {
 public:
  // Collective over `comm`. If rank 0's environment contains TP_ALL_REDUCE=messages, sums use only messages,
  // and every rank sends its own addend. Throws CommError. Rank 0 throws ConfigError if the variable has any
  // value except `messages` and `shared`.
  AllReduce(MPI_Comm comm, const Patience& patience, Exchange& exchange);

  // Writes the sum over ranks to `target`, which may be the addend's own memory if the addend consists of
  // floats. All ranks must pass the same number of floats or doubles. A sum of doubles is rounded to float at
  // the end.
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

  // Prepares sums over several hosts: sets the wire type, and measures which WireWay is fastest for each
  // size. Collective. Throws CommError. Throws ConfigError on every rank if `type` is not f32 but sums use
  // messages(), which supports only f32.
  void prepare_wire(WireType type);

  // The reason why shared memory could not be created; empty if it was created or not attempted.
  const std::string& not_shared_because() const { return not_shared_because_; }

  // The parts of shared memory whose main reader is this rank; empty if sums don't use shared memory.
  std::vector<std::span<const std::byte>> shared_memory() const {
    return shared_ == nullptr ? std::vector<std::span<const std::byte>>() : shared_->own_memory();
  }

  // The implementations. Sums use shared() if it is not null, or else wire() if it is not null, or else
  // messages(). With shared(), the host roots exchange their hosts' sums through wire(), which is null on
  // other ranks.
  SharedMemoryAllReduce* shared() { return shared_.get(); }
  WireAllReduce* wire() { return host_roots_ ? host_roots_->wire() : nullptr; }
  MessageAllReduce& messages() { return messages_; }

 private:
  static bool is_forced_to_messages();

  Exchange& exchange_;
  std::size_t hosts_;
  MessageAllReduce messages_;
  bool ranks_are_alone_;  // whether every rank has its own host
  std::optional<HostRoots> host_roots_;
  std::unique_ptr<SharedMemoryAllReduce> shared_;
  std::string not_shared_because_;
};

}  // namespace tp
