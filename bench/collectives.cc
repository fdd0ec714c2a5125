// All-reduces of 1 KiB to 16 MiB: ours against MPI_Allreduce, in the same run, values verified first.
//
//   mpirun -np 2 build-check/bin/bench_collectives [--json]

#include "parallel/collectives.h"

#include "parallel/all_reduce.h"
#include "parallel/mpi_call.h"
#include "parallel/mpi_session.h"
#include "parallel/stopwatch.h"
#include "tp/internal/require.h"
#include "tp/mpi.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tp {
namespace {

// Element i of rank r: small integers, so that sums are exact in any order.
float element(std::size_t rank, std::size_t i) { return static_cast<float>((i * 7 + rank * 13) % 64); }

void fill(std::vector<float>& data, std::size_t rank) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = element(rank, i);
}

void verify(Communicator& comm, std::vector<float>& data) {
  fill(data, comm.rank());
  all_reduce(comm, PartialSum(TensorView<float>(data.data(), 1, data.size())));
  for (std::size_t i = 0; i < data.size(); ++i) {
    float expected = 0.0F;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) expected += element(rank, i);
    require<CommError>(data[i] == expected, "all_reduce of {} floats: element {} is {}, expected {}",
                       data.size(), i, data[i], expected);
  }
}

// Times a few calls in a row, as in a step: the median over repetitions of the slowest rank's mean time.
template <class Call>
double microseconds(Communicator& comm, const Call& call) {
  constexpr int kRepeats = 15;
  constexpr int kCalls = 10;
  std::vector<double> times;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    barrier(comm);
    const Stopwatch watch;
    for (int i = 0; i < kCalls; ++i) call();
    double own = watch.seconds() * 1e6 / kCalls;
    double slowest = 0.0;
    TP_MPI(MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm.handle()));
    times.push_back(slowest);
  }
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2];
}

void measure(Communicator& comm, std::size_t bytes, bool json) {
  std::vector<float> data(bytes / sizeof(float));
  verify(comm, data);
  std::fill(data.begin(), data.end(), 0.0F);  // stays zero however often it is summed
  const TensorView<float> view(data.data(), 1, data.size());
  const double ours = microseconds(comm, [&] { all_reduce(comm, PartialSum(view)); });
  const double mpi = microseconds(comm, [&] {
    TP_MPI(MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                         comm.handle()));
  });
  const std::span<const float> addend(data);
  const SumTarget in_place{data.data(), false};
  const double messages = microseconds(comm, [&] { comm.sums().messages()(addend, in_place); });
  SharedMemoryAllReduce* const window = comm.sums().shared();
  const double shared = window == nullptr ? 0.0 : microseconds(comm, [&] { (*window)(addend, in_place); });
  if (!comm.is_root()) return;
  const char* const path = window != nullptr ? "shared" : "messages";
  if (json) {
    fmt::print(
        "{{\"bytes\":{},\"ranks\":{},\"all_reduce_us\":{:.3f},\"mpi_us\":{:.3f},\"messages_us\":{:.3f},"
        "\"shared_us\":{:.3f},\"ratio\":{:.3f},\"path\":\"{}\"}}\n",
        bytes, comm.size(), ours, mpi, messages, shared, ours / mpi, path);
  } else {
    fmt::print("{:>9} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f} {:>8.2f} {:>9}\n", bytes, ours, mpi, messages,
               shared, ours / mpi, path);
  }
  std::fflush(stdout);
}

void run(bool json) {
  const MpiSession session;
  Communicator comm(MPI_COMM_WORLD);
  if (comm.is_root() && !json) {
    fmt::print("{:>9} {:>12} {:>12} {:>12} {:>12} {:>8} {:>9}\n", "bytes", "all_reduce", "MPI", "messages",
               "shared", "ratio", "path");
  }
  for (std::size_t bytes = 1 << 10; bytes <= std::size_t{16} << 20; bytes *= 2) measure(comm, bytes, json);
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Our all-reduces compared with MPI_Allreduce; run it with mpirun");
  bool json = false;
  app.add_flag("--json", json, "One JSON object per line");
  CLI11_PARSE(app, argc, argv);
  try {
    tp::run(json);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_collectives: {}\n", error.what());
    tp::MpiSession::abort(1);
  }
}
