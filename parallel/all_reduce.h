// The sum over ranks, by the way that is the fastest for its size.
#pragma once

#include "parallel/exchange.h"
#include "parallel/message_sum.h"
#include "parallel/shared_sum.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <mpi.h>

namespace tp {

// Whichever way it goes, a sum is taken in one order, so that its bits depend on the ranks and their hosts
// alone: first the addends of each host's ranks, in the order of the ranks, then the sums of the hosts, in
// the order of their first ranks, and last, if the sum is to be added to something, that.
class AllReduce {
 public:
  // Collective over `comm`. TP_ALL_REDUCE=shared|messages in rank 0's environment forces a way. Throws
  // CommError, and ConfigError for another value of it.
  AllReduce(MPI_Comm comm, const Patience& patience, Exchange& exchange);

  // Replaces `data` by the sum over ranks, or, with `onto` given, adds the sum to the floats there and leaves
  // `data` alone. Every rank gives as many floats.
  void operator()(std::span<float> data, float* onto = nullptr);

  // The way of a sum of that many floats, the same on every rank: whether it goes through shared memory.
  bool is_shared(std::size_t floats) const;

  // Why sums do not go through shared memory although ranks share a host; empty if they do.
  const std::string& not_shared_because() const { return not_shared_because_; }

  // The ways by themselves; the first is null if it cannot be gone.
  SharedSum* shared() { return shared_.get(); }
  MessageSum& messages() { return messages_; }

 private:
  enum class Way : int { measured, shared, messages };
  static Way forced_way();

  void measure();
  double seconds_of(std::span<float> data, bool shared);

  static constexpr std::size_t kSizeClasses = 23;  // powers of two of bytes

  Exchange& exchange_;
  MessageSum messages_;
  std::unique_ptr<SharedSum> shared_;
  std::string not_shared_because_;
  bool shared_is_faster_[kSizeClasses] = {};
};

}  // namespace tp
