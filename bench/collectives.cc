// All-reduces of 1 KiB to 16 MiB: ours against MPI_Allreduce, in the same run and in turns, values verified
// first.
//
//   mpirun -np 2 build/bin/bench_collectives [--json] [--largest BYTES] [--wire int8]

#include "parallel/exchange/collectives.h"

#include "bench/on_ranks.h"
#include "parallel/exchange/all_reduce.h"
#include "parallel/exchange/mpi_call.h"
#include "parallel/exchange/placement.h"
#include "parallel/machine/processors.h"
#include "tp/internal/require.h"

#include <functional>

namespace tp {
namespace {

// Returns element i of rank r. Elements are small integers, so sums are exact in any order.
float element(std::size_t rank, std::size_t i) { return static_cast<float>((i * 7 + rank * 13) % 64); }

void fill(std::vector<float>& data, std::size_t rank) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = element(rank, i);
}

// Returns the largest error of a sum after two roundings, relative to the largest sum.
float tolerance(WireType wire) {
  constexpr float kOf[] = {0.0F, 1.0F / 128, 1.0F / 100};
  return kOf[static_cast<std::size_t>(wire)];
}

void verify(Communicator& comm, std::vector<float>& data, WireType wire) {
  fill(data, comm.rank());
  all_reduce(comm, PartialSum(TensorView<float>(data.data(), 1, data.size())));
  const float max = 63.0F * static_cast<float>(comm.size()) * tolerance(wire);
  for (std::size_t i = 0; i < data.size(); ++i) {
    float expected = 0.0F;
    for (std::size_t rank = 0; rank < comm.size(); ++rank) expected += element(rank, i);
    require<CommError>(std::abs(data[i] - expected) <= max,
                       "all_reduce of {} floats: element {} is {}, expected {}", data.size(), i, data[i],
                       expected);
  }
}

using Call = std::function<void()>;

// Returns the microseconds of each call. Each measurement is the slowest rank's mean over several calls in a
// row, as in a step. The result is the median over rounds. Every round measures all calls, so that a busy
// moment affects all of them.
std::vector<double> microseconds(Communicator& comm, const std::vector<Call>& calls) {
  constexpr std::size_t kRounds = 15;
  constexpr double kSeconds = 1.0;  // duration of all rounds
  const auto slowest_time = [&](const Call& call, int count) {
    barrier(comm);
    const Stopwatch watch;
    for (int i = 0; i < count; ++i) call();
    double own = watch.seconds();
    double slowest = 0.0;
    TP_MPI(MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm.handle()));
    return slowest / count;
  };
  double one_round = 0.0;
  for (const Call& call : calls) one_round += slowest_time(call, 1);
  const int count = std::clamp(static_cast<int>(kSeconds / kRounds / one_round), 1, 10);
  std::vector<std::vector<double>> times(calls.size());
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t call = 0; call < calls.size(); ++call)
      times[call].push_back(slowest_time(calls[call], count));
  }
  std::vector<double> medians;
  for (const std::vector<double>& all : times) medians.push_back(interval_of(all).median * 1e6);
  return medians;
}

const char* path_of(AllReduce& sums) {
  if (sums.shared() != nullptr) return sums.wire() != nullptr ? "shared+wire" : "shared";
  return sums.wire() != nullptr ? "wire" : "messages";
}

void measure(Communicator& comm, std::size_t bytes, WireType wire, bool json) {
  std::vector<float> data(bytes / sizeof(float));
  verify(comm, data, wire);
  std::fill(data.begin(), data.end(), 0.0F);  // zeros remain zeros in repeated sums
  std::vector<float> sum(
      data.size());  // result of MPI_Allreduce, because Open MPI 4.1's HAN crashes on some sums in place
  const TensorView<float> view(data.data(), 1, data.size());
  const SumTarget in_place{data.data(), false};
  const std::vector<double> times =
      microseconds(comm, {[&] { all_reduce(comm, PartialSum(view)); },
                          [&] {
                            TP_MPI(MPI_Allreduce(data.data(), sum.data(), static_cast<int>(data.size()),
                                                 MPI_FLOAT, MPI_SUM, comm.handle()));
                          },
                          [&] { comm.sums().messages()(std::span<const float>(data), in_place); }});
  if (!comm.is_root()) return;
  const char* const path = path_of(comm.sums());
  bench::print_line(json,
                    fmt::format("{{\"bytes\":{},\"ranks\":{},\"hosts\":{},\"all_reduce_us\":{:.3f},\"mpi_"
                                "us\":{:.3f},\"messages_us\":"
                                "{:.3f},\"ratio\":{:.3f},\"path\":\"{}\"}}",
                                bytes, comm.size(), comm.placement().hosts.size(), times[0], times[1],
                                times[2], times[0] / times[1], path),
                    fmt::format("{:>9} {:>12.2f} {:>12.2f} {:>12.2f} {:>8.2f} {:>12}", bytes, times[0],
                                times[1], times[2], times[0] / times[1], path));
}

void print_choices(Communicator& comm, double seconds) {
  fmt::print(stderr, "{} hosts, measured in {:.0f} ms:", comm.placement().hosts.size(), seconds * 1e3);
  if (comm.sums().wire() == nullptr) return;
  constexpr const char* kNames[] = {"one-shot", "two-shot", "doubling"};
  for (const WireChoice& choice : comm.sums().wire()->choices())
    fmt::print(stderr, " up to {} {}", choice.bytes, kNames[static_cast<std::size_t>(choice.way)]);
  fmt::print(stderr, "\n");
}

struct Options {
  bool json = false;
  std::size_t smallest = 1 << 10;
  std::size_t largest = std::size_t{16} << 20;
  WireType wire = WireType::f32;
};

void run(Communicator& comm, const Options& options) {
  set_threads(default_threads(comm.placement()));
  const Stopwatch watch;
  comm.sums().prepare_wire(options.wire);
  if (comm.is_root()) {
    if (comm.placement().hosts.size() > 1) print_choices(comm, watch.seconds());
    if (!options.json)
      fmt::print("{:>9} {:>12} {:>12} {:>12} {:>8} {:>12}\n", "bytes", "all_reduce", "MPI", "messages",
                 "ratio", "path");
  }
  for (std::size_t bytes = options.smallest; bytes <= options.largest; bytes *= 2)
    measure(comm, bytes, options.wire, options.json);
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Our all-reduces compared with MPI_Allreduce; run it with mpirun");
  tp::Options options;
  tp::bench::add_json(app, options.json);
  app.add_option("--smallest", options.smallest, "Bytes")->check(CLI::Range(1 << 10, 1 << 30));
  app.add_option("--largest", options.largest, "Bytes")->check(CLI::Range(1 << 10, 1 << 30));
  app.add_option_function<std::string>(
         "--wire", [&](const std::string& name) { options.wire = *tp::find_wire_type(name); },
         "How sums are sent from host to host")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
  return tp::bench::run_on_ranks("bench_collectives", app, argc, argv,
                                 [&](tp::Communicator& comm) { tp::run(comm, options); });
}
