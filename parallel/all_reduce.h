// The sum over ranks, through shared memory where ranks share a host, else by messages.
#pragma once

#include "parallel/exchange.h"
#include "parallel/message_all_reduce.h"
#include "parallel/shared_memory_all_reduce.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <mpi.h>

namespace tp {

// Both implementations take a sum in the same order, so that its bits depend on the ranks and their hosts
// alone: first the addends of each host's ranks, in the order of the ranks, then the sums of the hosts, in
// the order of their first ranks, and last, if the sum is to be added to something, that.
class AllReduce {
 public:
  // Collective over `comm`. TP_ALL_REDUCE=messages in rank 0's environment does without shared memory. Throws
  // CommError, and ConfigError for another value of it than that and `shared`.
  AllReduce(MPI_Comm comm, const Patience& patience, Exchange& exchange);

  // Replaces `data` by the sum over ranks, or, with `onto` given, adds the sum to the floats there and leaves
  // `data` alone. Every rank gives as many floats.
  void operator()(std::span<float> data, float* onto = nullptr);

  // Why sums do not go through shared memory although ranks share a host; empty if they do.
  const std::string& not_shared_because() const { return not_shared_because_; }

  // The ways by themselves. The first is taken where it is there, else null.
  SharedMemoryAllReduce* shared() { return shared_.get(); }
  MessageAllReduce& messages() { return messages_; }

 private:
  static bool is_forced_to_messages();

  MessageAllReduce messages_;
  std::unique_ptr<SharedMemoryAllReduce> shared_;
  std::string not_shared_because_;
};

}  // namespace tp
