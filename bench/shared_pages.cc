// How fast a rank reads keys and values that another rank of its host has written: in place, in small and in
// huge pages of shared memory, or copied into a buffer of its own with process_vm_readv. All ways must give
// the same sum.
//
//   mpirun -np 2 build/bin/bench_shared_pages [--megabytes 512] [--pairs 12]

#include "bench/on_ranks.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/host_region.h"
#include "parallel/exchange/placement.h"
#include "tp/internal/require.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace tp {
namespace {

struct Options {
  std::size_t megabytes = 512;
  std::size_t pairs = 12;
};

using Words = std::span<const std::uint64_t>;

std::uint64_t checksum(Words words) {
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words) sum += word;
  return sum;
}

std::unique_ptr<HostRegion> filled_region(Communicator& comm, std::size_t bytes, bool huge) {
  std::string why;
  auto region = HostRegion::create(comm, comm.placement().own_host(), bytes, why);
  require<ConfigError>(region != nullptr, "cannot share memory: {}; use another host", why);
  auto* const words = reinterpret_cast<std::uint64_t*>(region->data());
  for (std::size_t i = 0; comm.is_root() && i < bytes / sizeof(*words); ++i)
    words[i] = i * 0x9e3779b97f4a7c15;
  if (comm.is_root() && huge) region->use_huge_pages(region->data(), bytes);
  region->synchronize();
  return region;
}

// Copies the memory of another process in pieces that fit into the core's cache, and sums them.
class Copies {
 public:
  explicit Copies(pid_t process) : process_(process), piece_(kPiece / sizeof(std::uint64_t)) {}

  std::uint64_t sum_of(Words remote) {
    std::uint64_t sum = 0;
    for (std::size_t begin = 0; begin < remote.size(); begin += piece_.size()) {
      const Words from = remote.subspan(begin, std::min(piece_.size(), remote.size() - begin));
      const iovec to{piece_.data(), from.size_bytes()};
      const iovec source{const_cast<std::uint64_t*>(from.data()), from.size_bytes()};
      const ssize_t count = ::process_vm_readv(process_, &to, 1, &source, 1, 0);
      require<ConfigError>(count == static_cast<ssize_t>(from.size_bytes()), "process_vm_readv: {}",
                           std::strerror(errno));
      sum += checksum(Words(piece_).first(from.size()));
    }
    return sum;
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;

  pid_t process_;
  std::vector<std::uint64_t> piece_;
};

struct Way {
  const char* name;
  std::function<std::uint64_t()> sum;
  std::vector<double> seconds{};
};

// The last rank reads the memory that the first rank has written.
void measure(Communicator& comm, const Options& options) {
  const std::size_t bytes = options.megabytes << 20;
  const auto small = filled_region(comm, bytes, false);
  const auto huge = filled_region(comm, bytes, true);
  struct Owner {
    std::int64_t process;
    std::uintptr_t data;
  };
  const Owner own{::getpid(), reinterpret_cast<std::uintptr_t>(small->data())};
  const Owner first = exchange_values<Owner>(comm, std::span(&own, 1)).front();
  const auto words_at = [&](const std::byte* data) {
    return Words(reinterpret_cast<const std::uint64_t*>(data), bytes / sizeof(std::uint64_t));
  };
  if (comm.rank() + 1 == comm.size()) {
    Copies copies(static_cast<pid_t>(first.process));
    std::vector<Way> ways = {
        {"in place, small pages", [&] { return checksum(words_at(small->data())); }},
        {"in place, huge pages", [&] { return checksum(words_at(huge->data())); }},
        {"process_vm_readv",
         [&] { return copies.sum_of(words_at(reinterpret_cast<const std::byte*>(first.data))); }}};
    const std::uint64_t expected = ways.front().sum();
    for (std::size_t pair = 0; pair < options.pairs; ++pair) {
      for (Way& way : ways) {
        way.seconds.push_back(bench::seconds_of(
            [&] { require<ConfigError>(way.sum() == expected, "{}: another sum", way.name); }));
      }
    }
    for (const Way& way : ways) {
      const Interval seconds = interval_of(way.seconds);
      const double gigabytes = static_cast<double>(bytes) / 1e9;
      fmt::print("{}: {:.2f} GB/s [{:.2f}, {:.2f}]\n", way.name, gigabytes / seconds.median,
                 gigabytes / seconds.high, gigabytes / seconds.low);
    }
  }
  barrier(comm);
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Reading shared memory in place, and copies of it");
  tp::Options options;
  app.add_option("--megabytes", options.megabytes, "Size of the memory")->check(CLI::Range(1, 1 << 20));
  tp::bench::add_pairs(app, options.pairs, "Alternating measurements of each way");
  return tp::bench::run_on_ranks("bench_shared_pages", app, argc, argv,
                                 [&](tp::Communicator& comm) { tp::measure(comm, options); });
}
