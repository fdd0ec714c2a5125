#include "parallel/exchange/collectives.h"

#include "parallel/exchange/all_reduce.h"
#include "parallel/exchange/exchange.h"
#include "parallel/exchange/overlap.h"
#include "parallel/exchange/tracer.h"
#include "parallel/machine/stopwatch.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cassert>
#include <climits>
#include <vector>

namespace tp {
namespace {

// MPI 3 counts elements with ints.
constexpr std::size_t kMaxCount = INT_MAX;

constexpr Wait::Manner kTogether{
    .collective = "a synchronization of all ranks", .polite = true, .root_has_time = true};

constexpr Wait::Manner kExchange{.collective = "an exchange"};

// Adds one call, its bytes and its seconds to a counter at the end of the scope.
class Counted {
 public:
  Counted(CommCounter& counter, std::size_t bytes) : counter_(counter), bytes_(bytes) {}
  ~Counted() {
    counter_.calls += 1;
    counter_.bytes += bytes_;
    counter_.seconds += watch_.seconds();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  CommCounter& counter_;
  std::size_t bytes_;
  Stopwatch watch_;
};

template <class T>
std::span<T> elements_of(TensorView<T> x) {
  require<CommError>(x.contiguous(),
                     "all_reduce needs a contiguous tensor, found rows {} apart with {} columns", x.stride(),
                     x.columns());
  return {x.data(), x.size()};
}

// Counts and traces an all-reduce that ends with the scope.
class CountedAllReduce {
 public:
  CountedAllReduce(Communicator& comm, std::size_t bytes)
      : comm_(comm), counted_(comm.stats().all_reduce, bytes), span_(comm, Activity::all_reduce, bytes) {}
  ~CountedAllReduce() { comm_.stats().all_reduce_seconds.push_back(static_cast<float>(watch_.seconds())); }
  CountedAllReduce(const CountedAllReduce&) = delete;
  CountedAllReduce& operator=(const CountedAllReduce&) = delete;

 private:
  Communicator& comm_;
  Counted counted_;
  TraceSpan span_;
  Stopwatch watch_;
};

// The ranks compare their all-reduce durations once this many are stored.
constexpr std::size_t kCompareAfter = 4096;

// Compares and clears the durations once kCompareAfter of them are stored. All ranks have the same number of
// durations, so they all call waiting_seconds() together.
void bound_statistics(Communicator& comm) {
  if (comm.stats().all_reduce_seconds.size() >= kCompareAfter) waiting_seconds(comm);
}

// Whether the sum of `ranks` addends as large as this one stays below `exact_below`, so that doubles
// represent it exactly.
bool stays_exact(std::span<const double> addend, std::size_t ranks, double exact_below) {
  return largest_magnitude(addend) * static_cast<double>(ranks) < exact_below;
}

// Computes the sum and returns its traffic on the wire.
template <class T>
CommCounter sum(AllReduce& sums, std::span<const T> addend, const SumTarget& target) {
  sums(addend, target);
  return sums.wire() != nullptr ? sums.wire()->take_count() : CommCounter();
}

// Computes the sum in the background while the other computation passed to overlap() runs up to its next sum.
// If this sum is still unfinished then, only the remaining wait counts as this rank's time in the all-reduce.
template <class T>
CommCounter sum_in_background(Communicator& comm, std::span<const T> addend, const SumTarget& target) {
  AllReduce& sums = comm.sums();
  const Tracer& tracer = comm.tracer();
  CommCounter wire;
  TraceEvent event{.detail = addend.size_bytes(), .activity = Activity::overlapped_all_reduce};
  {
    CommunicationThread::Pending pending(comm.overlap().thread(), [&] {
      event.begin = tracer.now();
      wire = sum(sums, addend, target);
      event.end = tracer.now();
    });
    comm.overlap().take_turns();
    const CountedAllReduce counted(comm, addend.size_bytes());
    pending.wait();
  }
  if (tracer.on()) comm.tracer().add(event);
  return wire;
}

template <class T>
void reduce(Communicator& comm, std::span<const T> addend, const SumTarget& target) {
  bound_statistics(comm);
  if (comm.overlaps()) {
    comm.stats().wire += sum_in_background(comm, addend, target);
    return;
  }
  const CountedAllReduce counted(comm, addend.size_bytes());
  comm.stats().wire += sum(comm.sums(), addend, target);
}

void reduce(Communicator& comm, std::span<const double> addend, double exact_below, const SumTarget& target) {
  if (!stays_exact(addend, comm.size(), exact_below)) comm.stats().inexact_sums += 1;
  reduce(comm, addend, target);
}

// Every rank r except rank 0 sends `own` to rank 0, which receives it in from[r]. `from` is [ranks]. Rank 0's
// own bytes are not copied.
void send_to_root(Communicator& comm, Exchange::ConstBytes own, std::span<const Exchange::Bytes> from) {
  std::vector<Exchange::ConstBytes> to(comm.size());
  if (!comm.is_root()) to[0] = own;
  comm.exchange().all_to_all(to, from, {.collective = "a gather"});
}

// Collects every rank's bytes on every rank, [ranks, own.size()].
void to_all(Communicator& comm, Exchange::ConstBytes own, Exchange::Bytes all) {
  std::vector<Exchange::Bytes> from;
  for (std::size_t rank = 0; rank < comm.size(); ++rank)
    from.push_back(all.subspan(rank * own.size(), own.size()));
  std::ranges::copy(own, from[comm.rank()].begin());
  comm.exchange().to_all(own, from, kExchange);
}

}  // namespace

TensorView<float> all_reduce(Communicator& comm, PartialSum partial) {
  assert(!partial.has_doubles());
  const std::span<float> sum = elements_of(partial.floats_);
  reduce(comm, std::span<const float>(sum), {sum.data(), false});
  return partial.floats_;
}

void all_reduce(Communicator& comm, PartialSum partial, TensorView<float> out) {
  const SumTarget target{elements_of(out).data(), false};
  if (partial.has_doubles())
    reduce(comm, std::span<const double>(elements_of(partial.doubles_)), partial.exact_below_, target);
  else
    reduce(comm, std::span<const float>(elements_of(partial.floats_)), target);
}

void add_all_reduced(Communicator& comm, PartialSum partial, TensorView<float> x) {
  const SumTarget target{elements_of(x).data(), true};
  if (partial.has_doubles())
    reduce(comm, std::span<const double>(elements_of(partial.doubles_)), partial.exact_below_, target);
  else
    reduce(comm, std::span<const float>(elements_of(partial.floats_)), target);
}

void gather_columns(Communicator& comm, TensorView<const float> local, std::span<const Range> shards,
                    TensorView<float> out) {
  const Counted counted(comm.stats().gather, local.size() * sizeof(float));
  const TraceSpan span(comm, Activity::gather, local.size() * sizeof(float));
  for (std::size_t row = 0; row < local.rows(); ++row) {
    const std::span<const float> own(local.row(row), local.columns());
    std::vector<Exchange::Bytes> from(comm.size());
    if (comm.is_root()) {
      for (std::size_t rank = 0; rank < comm.size(); ++rank)
        from[rank] =
            std::as_writable_bytes(std::span(out.row(row) + shards[rank].begin, shards[rank].size()));
      std::ranges::copy(own, out.row(row) + shards[0].begin);
    }
    send_to_root(comm, std::as_bytes(own), from);
  }
}

void gather_bytes(Communicator& comm, std::span<const std::byte> local, std::span<std::byte> out) {
  const Counted counted(comm.stats().gather, local.size());
  const TraceSpan span(comm, Activity::gather, local.size());
  std::vector<Exchange::Bytes> from(comm.size());
  if (comm.is_root()) {
    for (std::size_t rank = 0; rank < comm.size(); ++rank)
      from[rank] = out.subspan(rank * local.size(), local.size());
    std::ranges::copy(local, out.begin());
  }
  send_to_root(comm, local, from);
}

void exchange_bytes(Communicator& comm, std::span<const std::byte> local, std::span<std::byte> out) {
  const Counted counted(comm.stats().exchange, local.size());
  const TraceSpan span(comm, Activity::exchange, local.size());
  to_all(comm, local, out);
}

void exchange_parts(Communicator& comm, std::span<const std::span<const std::byte>> to,
                    std::span<const std::span<std::byte>> from) {
  std::size_t bytes = 0;
  for (const auto& part : to) bytes += part.size();
  const Counted counted(comm.stats().exchange, bytes);
  const TraceSpan span(comm, Activity::exchange, bytes);
  comm.exchange().all_to_all(to, from, kExchange);
}

void exchange_max(Communicator& comm, std::span<float> values) {
  const std::vector<float> own(values.begin(), values.end());
  const std::vector<float> all = exchange_values(comm, std::span<const float>(own));
  for (std::size_t i = 0; i < all.size(); ++i)
    values[i % values.size()] = std::max(values[i % values.size()], all[i]);
}

void exchange_sum(Communicator& comm, std::span<double> values) {
  const Counted counted(comm.stats().exchange, values.size_bytes());
  const TraceSpan span(comm, Activity::exchange, values.size_bytes());
  // Each rank adds up one part of the values, then sends its sums to all ranks.
  const std::size_t part = (values.size() + comm.size() - 1) / comm.size();
  const auto part_of = [&](std::size_t rank) {
    const std::size_t begin = std::min(values.size(), rank * part);
    return values.subspan(begin, std::min(part, values.size() - begin));
  };
  const std::span<double> own = part_of(comm.rank());
  std::vector<double> addends(own.size() * comm.size());
  std::vector<Exchange::ConstBytes> to;
  std::vector<Exchange::Bytes> from;
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    to.push_back(std::as_bytes(part_of(rank)));
    from.push_back(std::as_writable_bytes(std::span(addends).subspan(rank * own.size(), own.size())));
  }
  comm.exchange().all_to_all(to, from, kExchange);
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    for (std::size_t i = 0; rank != comm.rank() && i < own.size(); ++i)
      own[i] += addends[rank * own.size() + i];
  }
  for (std::size_t rank = 0; rank < comm.size(); ++rank) from[rank] = std::as_writable_bytes(part_of(rank));
  comm.exchange().to_all(std::as_bytes(own), from, kExchange);
}

void broadcast_bytes(Communicator& comm, std::span<std::byte> bytes) {
  const Counted counted(comm.stats().broadcast, bytes.size());
  const TraceSpan span(comm, Activity::broadcast, bytes.size());
  const Wait::Manner manner{.collective = "a broadcast", .polite = true, .root_has_time = true};
  for (std::size_t begin = 0; begin < bytes.size(); begin += kMaxCount) {
    const std::span<std::byte> piece = bytes.subspan(begin, std::min(kMaxCount, bytes.size() - begin));
    if (comm.is_root()) {
      comm.exchange().post_to_all(piece, manner);
      continue;
    }
    std::vector<Exchange::Bytes> from(comm.size());
    from[0] = piece;
    comm.exchange().to_all({}, from, manner);
  }
}

std::int64_t max_over_ranks(Communicator& comm, std::int64_t value) {
  return std::ranges::max(comm.exchange().all_values(value, kTogether));
}

double waiting_seconds(Communicator& comm) {
  std::vector<float>& own = comm.stats().all_reduce_seconds;
  std::vector<float> all(own.size() * comm.size());
  std::vector<Exchange::Bytes> from;
  for (std::size_t rank = 0; rank < comm.size(); ++rank)
    from.push_back(std::as_writable_bytes(std::span(all).subspan(rank * own.size(), own.size())));
  comm.exchange().to_all(std::as_bytes(std::span(own)), from, kTogether);
  std::vector<float> quickest = own;
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    if (rank == comm.rank()) continue;
    for (std::size_t call = 0; call < own.size(); ++call)
      quickest[call] = std::min(quickest[call], all[rank * own.size() + call]);
  }
  double& waited = comm.stats().waiting_seconds;
  for (std::size_t call = 0; call < own.size(); ++call)
    waited += static_cast<double>(own[call] - quickest[call]);
  own.clear();
  return waited;
}

void barrier(Communicator& comm) { comm.exchange().all_values(0, kTogether); }

}  // namespace tp
