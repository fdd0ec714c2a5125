// Messages between the ranks of a communicator, straight from each to each, so that whoever waits knows for
// whom.
#pragma once

#include "parallel/wait.h"

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include <mpi.h>

namespace tp {

class Exchange {
 public:
  using Bytes = std::span<std::byte>;
  using ConstBytes = std::span<const std::byte>;

  // Between all ranks of the placement.
  Exchange(MPI_Comm comm, const Patience& patience);
  // Between some of them, each of which communicates for several: members[r] for rank r of `comm`, in
  // ascending order and the rank itself first.
  Exchange(MPI_Comm comm, const Patience& patience, std::vector<Wait::Ranks> members);

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return members_.size(); }

  // Sends to[r] to every rank r and receives from[r] from it, [size()] each; nothing where a span is empty,
  // and nothing to and from this rank itself. Collective. Throws CommError.
  void all_to_all(std::span<const ConstBytes> to, std::span<const Bytes> from, const Wait::Manner& manner);
  // `own` to every rank; from[r] as above.
  void to_all(ConstBytes own, std::span<const Bytes> from, const Wait::Manner& manner);

  // Every rank's value, in rank order.
  template <class T>
  std::vector<T> all_values(const T& own, const Wait::Manner& manner) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> values(size(), own);
    std::vector<Bytes> from;
    for (T& value : values) from.push_back(std::as_writable_bytes(std::span(&value, 1)));
    to_all(std::as_bytes(std::span(&own, 1)), from, manner);
    return values;
  }

 private:
  Wait::Ranks missing();

  MPI_Comm comm_;
  const Patience& patience_;
  std::vector<Wait::Ranks> members_;
  Wait::Ranks together_;  // the first of all members
  std::size_t rank_ = 0;
  // While messages are on their way: requests, and with which rank.
  std::vector<MPI_Request> requests_;
  std::vector<std::size_t> partners_;
};

}  // namespace tp
