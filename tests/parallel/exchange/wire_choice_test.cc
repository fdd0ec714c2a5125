// The choice of ways between hosts, on imitated networks with their own clock.
#include "parallel/exchange/wire_choice.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

// A sum takes the time of its messages and bytes. Hosts exchange a short message before and after each.
struct Network {
  double latency = 0.0;  // seconds
  double rate = 0.0;     // bytes per second
  double hosts = 4.0;
  double message = 0.0;  // seconds for each further message
  std::vector<WireWay> ways = {WireWay::one_shot, WireWay::two_shot};
  double elapsed = 0.0;
  std::size_t trials = 0;

  double seconds(WireWay way, std::size_t bytes) const {
    const double sent = static_cast<double>(bytes) * (hosts - 1);
    if (way == WireWay::two_shot) return 2 * (latency + message * (hosts - 2) + sent / hosts / rate);
    const double rounds = way == WireWay::doubling ? std::log2(hosts) : 1.0;
    const double messages =
        way == WireWay::doubling ? 0.0 : hosts - 2;  // messages that don't depend on each other
    return rounds * latency + message * messages + sent / rate;
  }
  std::vector<WireChoice> choose() {
    elapsed = 6 * latency;  // time to connect
    return quickest_ways(ways, [this](WireWay way, std::size_t bytes) {
      ++trials;
      elapsed += 2 * latency + seconds(way, bytes);
      return WireTiming{seconds(way, bytes), elapsed};
    });
  }
};

WireWay way_for(const std::vector<WireChoice>& choices, std::size_t bytes) {
  for (const WireChoice& choice : choices) {
    if (bytes <= choice.bytes) return choice.way;
  }
  ADD_FAILURE() << "no choice for " << bytes;
  return WireWay::one_shot;
}

TEST(QuickestWays, TakeLessThanThreeTenthsOfASecondOnAnyNetwork) {
  for (const double latency : {1e-6, 30e-6, 100e-6, 1e-3, 5e-3, 10e-3, 20e-3, 30e-3}) {
    for (const double rate : {12.5e6, 125e6, 1.25e9, 12.5e9}) {
      for (const double hosts : {3.0, 4.0, 8.0, 16.0, 64.0}) {
        Network network{.latency = latency, .rate = rate, .hosts = hosts};
        network.ways = wire_ways(static_cast<std::size_t>(hosts));
        network.choose();
        const double first = 9 * latency + 4096 * (hosts - 1) / rate;
        EXPECT_LE(network.elapsed, 1.0001 * std::max(0.15, first))
            << latency << ", " << rate << ", " << hosts;
        EXPECT_LE(network.elapsed, 0.3) << latency << ", " << rate << ", " << hosts;
      }
    }
  }
}

TEST(QuickestWays, AreTheFasterWaysOfAModelNetwork) {
  for (const double latency : {1e-6, 30e-6, 100e-6, 1e-3}) {
    for (const double rate : {12.5e6, 125e6, 1.25e9, 12.5e9}) {
      Network network{.latency = latency, .rate = rate};
      const std::vector<WireChoice> choices = network.choose();
      ASSERT_GE(choices.size(), 3U);
      std::size_t bytes = 4096;
      for (std::size_t i = 0; i + 1 < choices.size(); ++i, bytes *= 2) {
        const bool is_one_shot =
            network.seconds(WireWay::one_shot, bytes) <= network.seconds(WireWay::two_shot, bytes);
        EXPECT_EQ(way_for(choices, bytes), is_one_shot ? WireWay::one_shot : WireWay::two_shot)
            << bytes << ", " << latency << ", " << rate;
      }
      EXPECT_EQ(way_for(choices, std::size_t{16} << 20), WireWay::two_shot);
    }
  }
}

TEST(QuickestWays, DoubleAmongManyHostsWhoseMessagesCost) {
  Network network{.latency = 20e-6, .rate = 12.5e9, .hosts = 64.0, .message = 5e-6, .ways = wire_ways(64)};
  EXPECT_EQ(way_for(network.choose(), 4096), WireWay::doubling);
  network.message = 0.1e-6;
  EXPECT_EQ(way_for(network.choose(), 4096), WireWay::one_shot);
  EXPECT_EQ(wire_ways(6), (std::vector<WireWay>{WireWay::one_shot, WireWay::two_shot}));
}

TEST(QuickestWays, TryEverySizeSeveralTimesOnAFastNetwork) {
  Network network{.latency = 20e-6, .rate = 1.25e9};
  EXPECT_EQ(network.choose().size(), 8U);
  EXPECT_EQ(network.trials, 1U + 7 * 2 * 5);
}

TEST(QuickestWays, AreUnknownIfNothingCanBeTried) {
  Network network{.latency = 30e-3, .rate = 1e9};
  EXPECT_TRUE(network.choose().empty());
  EXPECT_EQ(network.trials, 1U);
}

}  // namespace
}  // namespace tp
