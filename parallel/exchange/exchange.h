// Point-to-point messages between the ranks of a communicator. Unlike with MPI's collectives, a waiting rank
// knows which ranks it is waiting for.
#pragma once

#include "parallel/exchange/wait.h"

#include <climits>
#include <cstddef>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include <mpi.h>

namespace tp {

class Exchange {
 public:
  using Bytes = std::span<std::byte>;
  using ConstBytes = std::span<const std::byte>;

  // Connects all ranks of the placement.
  Exchange(MPI_Comm comm, const Patience& patience);
  // Connects only some ranks of the placement. members[r] lists the ranks that rank r of `comm` represents:
  // itself, then the others in ascending order. Messages longer than `longest` bytes are sent in parts.
  Exchange(MPI_Comm comm, const Patience& patience, std::vector<Wait::Ranks> members,
           std::size_t longest = INT_MAX);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return members_.size(); }

  // Messages in flight, each with its partner: the rank that it comes from or goes to.
  class Messages {
   public:
    // Lets MPI make progress. Returns whether all messages have been sent and received. Throws CommError.
    bool arrived();

   private:
    friend class Exchange;
    void clear();

    std::vector<MPI_Request> requests_;
    std::vector<std::size_t> partners_;
  };

  // Exchanges bytes with every other rank r: sends to[r], and receives into from[r]. `to` and `from` are
  // [size()]. Skips empty spans. Collective. Throws CommError.
  void all_to_all(std::span<const ConstBytes> to, std::span<const Bytes> from, const Wait::Manner& manner);
  // Like all_to_all, but sends the same bytes, `own`, to every other rank.
  void to_all(ConstBytes own, std::span<const Bytes> from, const Wait::Manner& manner);

  // Begins an all_to_all. The spans must remain valid until messages.arrived() returns true. `messages` must
  // not be in use for an earlier exchange. Several exchanges may be in flight if their tags differ. The other
  // member functions use tag 0.
  void begin_all_to_all(std::span<const ConstBytes> to, std::span<const Bytes> from, int tag,
                        Messages& messages);
  // Calls done() until it returns true. done() must let MPI make progress. `messages` is for reports of long
  // waits, which name the partners of the messages that are not complete.
  void wait_until(const std::function<bool()>& done, const Messages& messages, const Wait::Manner& manner);

  // Sends `bytes` to every other rank; the receivers call to_all. A short message is copied, so the call
  // returns without waiting for the receivers. If a rank is missing, the others notice in a later exchange.
  // Throws CommError.
  void post_to_all(ConstBytes bytes, const Wait::Manner& manner);
  // Lets MPI make progress on posted messages. Call it in loops that wait without other MPI calls.
  void progress();

  // Every rank's value, in rank order.
  template <class T>
  std::vector<T> all_values(const T& own, const Wait::Manner& manner) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> values(size(), own);
    std::vector<Bytes> from;
    from.reserve(values.size());
    for (T& value : values) from.push_back(std::as_writable_bytes(std::span(&value, 1)));
    to_all(std::as_bytes(std::span(&own, 1)), from, manner);
    return values;
  }

 private:
  void receive(std::size_t source, Bytes bytes, int tag, Messages& messages) const;
  void send(std::size_t target, ConstBytes bytes, int tag, Messages& messages) const;
  void wait_for(Messages& messages, const Wait::Manner& manner);
  Wait::Ranks missing(const Messages& messages) const;

  MPI_Comm comm_;
  const Patience& patience_;
  std::vector<Wait::Ranks> members_;
  std::size_t longest_;
  Wait::Ranks together_;  // members_[r].front() for each r
  std::size_t rank_ = 0;
  Messages exchanged_;
  Messages posted_;
  std::vector<std::byte> posted_bytes_;
};

}  // namespace tp
