#include "parallel/exchange/network_probe.h"

#include "parallel/exchange/collectives.h"
#include "parallel/exchange/host_roots.h"
#include "parallel/exchange/placement.h"
#include "parallel/machine/stopwatch.h"
#include "tp/mpi.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

namespace tp {
namespace {

constexpr std::size_t kShortMessage = 8;
constexpr std::size_t kLong = WireAllReduce::kPieceBytes;

constexpr Wait::Manner kMeasuring{.collective = "the measurement of the network"};

// Runs on one rank of each host.
class NetworkProbe {
 public:
  explicit NetworkProbe(Exchange& exchange) : exchange_(exchange) {}

  NetworkRates run() {
    const auto to_next = [this](std::size_t from, std::size_t to) { return to == (from + 1) % size(); };
    const auto to_all = [](std::size_t, std::size_t) { return true; };
    NetworkRates rates;
    rates.latency = seconds_of(kShortMessage, to_next);
    const double seconds = seconds_of(kLong, to_next);
    rates.rate = static_cast<double>(kLong) / std::max(seconds - rates.latency, 0.1 * seconds);
    if (size() == 2) return rates;
    const double more = seconds_of(kShortMessage, to_all) - rates.latency;
    rates.message = std::max(1e-7, more / static_cast<double>(size() - 2));
    return rates;
  }

 private:
  using Sends = std::function<bool(std::size_t from, std::size_t to)>;

  std::size_t size() const { return exchange_.size(); }

  // Seconds for an exchange in which each host sends `bytes` bytes to the hosts that `sends` selects.
  double seconds_of(std::size_t bytes, const Sends& sends) {
    constexpr double kSeconds = 0.01;
    constexpr std::size_t kMaxRounds = 512;
    constexpr int kTimes = 15;
    const std::vector<std::byte> out(bytes);
    std::vector<std::byte> in(bytes * size());
    std::vector<Exchange::ConstBytes> to(size());
    std::vector<Exchange::Bytes> from(size());
    for (std::size_t host = 0; host < size(); ++host) {
      if (sends(exchange_.rank(), host)) to[host] = out;
      if (sends(host, exchange_.rank())) from[host] = std::span(in).subspan(host * bytes, bytes);
    }
    const auto slowest_mean = [&](std::size_t rounds) {
      exchange_.all_values(0, kMeasuring);
      const Stopwatch watch;
      for (std::size_t round = 0; round < rounds; ++round) exchange_.all_to_all(to, from, kMeasuring);
      return std::ranges::max(
          exchange_.all_values(watch.seconds() / static_cast<double>(rounds), kMeasuring));
    };
    slowest_mean(2);  // opens connections
    // Doubles the rounds until a measurement takes long enough for a host's late start not to matter.
    std::size_t rounds = 1;
    while (rounds < kMaxRounds && static_cast<double>(rounds) * slowest_mean(rounds) < kSeconds) rounds *= 2;
    double best = HUGE_VAL;
    for (int i = 0; i < kTimes; ++i) best = std::min(best, slowest_mean(rounds));
    return best;
  }

  Exchange& exchange_;
};

}  // namespace

std::optional<NetworkRates> probe_network(Communicator& comm) {
  if (comm.placement().hosts.size() == 1) return std::nullopt;
  HostRoots roots(comm.handle(), comm.patience());
  NetworkRates rates;
  // Rank 0 is the root of the first host.
  if (roots.exchange() != nullptr) rates = NetworkProbe(*roots.exchange()).run();
  broadcast_bytes(comm, std::as_writable_bytes(std::span(&rates, 1)));
  return rates;
}

}  // namespace tp
