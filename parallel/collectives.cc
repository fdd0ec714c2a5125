#include "parallel/collectives.h"

#include "parallel/mpi_call.h"
#include "parallel/shared_sum.h"
#include "parallel/stopwatch.h"
#include "parallel/sums.h"
#include "parallel/tracer.h"
#include "tp/error.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <climits>
#include <thread>

namespace tp {
namespace {

// MPI 3 counts elements in an int.
constexpr std::size_t kMaxCount = INT_MAX;

// Adds one call to a counter when it goes out of scope.
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

// Waits for a request: spins while the answer is likely to come at once, then sleeps in growing steps.
void wait_politely(MPI_Request& request, bool oversubscribed) {
  using namespace std::chrono_literals;
  constexpr auto kSpin = 2ms;
  constexpr auto kLongestSleep = 1000us;
  const Stopwatch watch;
  auto sleep = 20us;
  int done = 0;
  while (true) {
    TP_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) return;
    if (watch.seconds() < std::chrono::duration<double>(kSpin).count()) {
      if (oversubscribed) std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(sleep);
    sleep = std::min<std::chrono::microseconds>(sleep * 2, kLongestSleep);
  }
}

std::span<float> floats_of(TensorView<float> x) {
  require<CommError>(x.contiguous(),
                     "all_reduce needs a contiguous tensor, found rows {} apart with {} columns", x.stride(),
                     x.columns());
  return {x.data(), x.size()};
}

// An all-reduce, from here to the end of the scope, in statistics and trace.
class CountedAllReduce {
 public:
  CountedAllReduce(Communicator& comm, std::span<const float> sum)
      : comm_(comm),
        counted_(comm.stats().all_reduce, sum.size_bytes()),
        span_(comm, Activity::all_reduce, sum.size_bytes()) {}
  ~CountedAllReduce() { comm_.stats().all_reduce_seconds.push_back(static_cast<float>(watch_.seconds())); }
  CountedAllReduce(const CountedAllReduce&) = delete;
  CountedAllReduce& operator=(const CountedAllReduce&) = delete;

 private:
  Communicator& comm_;
  Counted counted_;
  TraceSpan span_;
  Stopwatch watch_;
};

// The fast path, if there is one and it is faster for a sum of this size.
SharedSum* shared_sum_for(const Communicator& comm, std::span<const float> sum) {
  SharedSum* const shared = comm.shared_sum();
  return shared != nullptr && shared->is_worthwhile(sum.size()) ? shared : nullptr;
}

void message_all_reduce(const Communicator& comm, std::span<float> sum) {
  for (std::size_t begin = 0; begin < sum.size(); begin += kMaxCount) {
    const std::size_t count = std::min(kMaxCount, sum.size() - begin);
    TP_MPI(MPI_Allreduce(MPI_IN_PLACE, sum.data() + begin, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                         comm.handle()));
  }
}

}  // namespace

TensorView<float> all_reduce(Communicator& comm, PartialSum partial) {
  const std::span<float> sum = floats_of(partial.addend_);
  const CountedAllReduce counted(comm, sum);
  if (SharedSum* shared = shared_sum_for(comm, sum)) {
    shared->all_reduce(sum);
  } else {
    message_all_reduce(comm, sum);
  }
  return partial.addend_;
}

void add_all_reduced(Communicator& comm, PartialSum partial, TensorView<float> x) {
  const std::span<float> sum = floats_of(partial.addend_);
  const std::span<float> to = floats_of(x);
  assert(sum.size() == to.size());
  const CountedAllReduce counted(comm, sum);
  if (SharedSum* shared = shared_sum_for(comm, sum)) return shared->all_reduce(sum, to.data());
  message_all_reduce(comm, sum);
  const float* const addends[] = {sum.data(), to.data()};
  sum_of(addends, to.size(), to.data());
}

void gather_columns(Communicator& comm, TensorView<const float> local, std::span<const Range> shards,
                    TensorView<float> out) {
  const Counted counted(comm.stats().gather, local.size() * sizeof(float));
  const TraceSpan span(comm, Activity::gather, local.size() * sizeof(float));
  if (!comm.is_root()) {
    for (std::size_t row = 0; row < local.rows(); ++row) {
      TP_MPI(MPI_Gatherv(local.row(row), static_cast<int>(local.columns()), MPI_FLOAT, nullptr, nullptr,
                         nullptr, MPI_FLOAT, 0, comm.handle()));
    }
    return;
  }
  std::vector<int> counts;
  std::vector<int> offsets;
  for (const Range& shard : shards) {
    counts.push_back(static_cast<int>(shard.size()));
    offsets.push_back(static_cast<int>(shard.begin));
  }
  for (std::size_t row = 0; row < local.rows(); ++row) {
    TP_MPI(MPI_Gatherv(local.row(row), static_cast<int>(local.columns()), MPI_FLOAT, out.row(row),
                       counts.data(), offsets.data(), MPI_FLOAT, 0, comm.handle()));
  }
}

void gather_bytes(Communicator& comm, std::span<const std::byte> local, std::span<std::byte> out) {
  require<CommError>(local.size() <= kMaxCount, "a gather of {} bytes a rank is too large", local.size());
  const Counted counted(comm.stats().gather, local.size());
  const TraceSpan span(comm, Activity::gather, local.size());
  const int count = static_cast<int>(local.size());
  TP_MPI(MPI_Gather(local.data(), count, MPI_BYTE, out.data(), count, MPI_BYTE, 0, comm.handle()));
}

void broadcast_bytes(Communicator& comm, std::span<std::byte> bytes) {
  const Counted counted(comm.stats().broadcast, bytes.size());
  const TraceSpan span(comm, Activity::broadcast, bytes.size());
  for (std::size_t begin = 0; begin < bytes.size(); begin += kMaxCount) {
    const std::size_t count = std::min(kMaxCount, bytes.size() - begin);
    MPI_Request request = MPI_REQUEST_NULL;
    TP_MPI(MPI_Ibcast(bytes.data() + begin, static_cast<int>(count), MPI_BYTE, 0, comm.handle(), &request));
    wait_politely(request, comm.oversubscribed());
  }
}

std::int64_t max_over_ranks(Communicator& comm, std::int64_t value) {
  std::int64_t largest = value;
  MPI_Request request = MPI_REQUEST_NULL;
  TP_MPI(MPI_Iallreduce(&value, &largest, 1, MPI_INT64_T, MPI_MAX, comm.handle(), &request));
  wait_politely(request, comm.oversubscribed());
  return largest;
}

double waiting_seconds(Communicator& comm) {
  std::vector<float>& own = comm.stats().all_reduce_seconds;
  std::vector<float> quickest(own.size());
  TP_MPI(MPI_Allreduce(own.data(), quickest.data(), static_cast<int>(own.size()), MPI_FLOAT, MPI_MIN,
                       comm.handle()));
  double& waited = comm.stats().waiting_seconds;
  for (std::size_t call = 0; call < own.size(); ++call)
    waited += static_cast<double>(own[call] - quickest[call]);
  own.clear();
  return waited;
}

void barrier(Communicator& comm) { TP_MPI(MPI_Barrier(comm.handle())); }

}  // namespace tp
