#include "parallel/exchange/wire_choice.h"

#include "parallel/machine/stopwatch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace tp {
namespace {

constexpr double kBudget = 0.15;  // seconds for all trials
constexpr int kMaxRepeats = 5;
constexpr std::size_t kSmallest = 4 * 1024;
// Larger sums are not measured: bandwidth matters most for them, and two_shot sends the fewest bytes.
constexpr std::size_t kLargest = 256 * 1024;
constexpr std::size_t kNext = 2;  // ratio between successive sizes

constexpr Wait::Manner kWireMeasuring{.collective = "the measurement of the network"};

// Runs trials in rounds. Each round tries every algorithm once, and begins only if it is likely to end within
// the budget.
class WireRace {
 public:
  WireRace(std::span<const WireWay> ways, const WireTrial& trial) : ways_(ways), trial_(trial) {
    elapsed_ = trial_(WireWay::one_shot, kSmallest).elapsed;  // opens connections
    expected_ = static_cast<double>(ways.size()) * elapsed_;
  }

  // nullopt if not enough time is left for a round.
  std::optional<WireWay> quickest_way(std::size_t bytes) {
    std::vector<double> best(ways_.size(), HUGE_VAL);
    double quickest = HUGE_VAL;  // seconds that the fastest round took
    double until = kBudget;
    for (int repeat = 0; repeat < kMaxRepeats && elapsed_ + expected_ <= until; ++repeat) {
      // Keeps half of the remaining time for larger sizes.
      if (repeat == 0) until = elapsed_ + (kBudget - elapsed_) / 2;
      const double begun = elapsed_;
      for (std::size_t way = 0; way < ways_.size(); ++way) {
        const WireTiming timing = trial_(ways_[way], bytes);
        best[way] = std::min(best[way], timing.seconds);
        elapsed_ = timing.elapsed;
      }
      quickest = std::min(quickest, elapsed_ - begun);
      expected_ = quickest;
    }
    expected_ *= kNext;
    if (best.front() == HUGE_VAL) return std::nullopt;
    return ways_[static_cast<std::size_t>(std::ranges::min_element(best) - best.begin())];
  }

 private:
  std::span<const WireWay> ways_;
  const WireTrial& trial_;
  double elapsed_ = 0.0;   // seconds
  double expected_ = 0.0;  // seconds that the next round is expected to take
};

}  // namespace

std::vector<WireChoice> quickest_ways(std::span<const WireWay> ways, const WireTrial& trial) {
  std::vector<WireChoice> choices;
  WireRace race(ways, trial);
  for (std::size_t bytes = kSmallest; bytes <= kLargest; bytes *= kNext) {
    const std::optional<WireWay> way = race.quickest_way(bytes);
    if (!way) break;
    // Sums between two measured sizes use the algorithm that is fastest for the nearer size.
    choices.push_back({(1 + kNext) * bytes / 2, *way});
  }
  if (!choices.empty()) choices.push_back({std::numeric_limits<std::size_t>::max(), WireWay::two_shot});
  return choices;
}

void choose_wire_ways(WireAllReduce& wire, Exchange& exchange, WireType type) {
  std::vector<WireChoice> choices = wire.choices();
  std::vector<float> data(kLargest / sizeof(float));
  const Stopwatch begun;
  const auto trial = [&](WireWay way, std::size_t bytes) {
    wire.use(type, {{bytes, way}});
    const std::span<float> part = std::span(data).first(bytes / sizeof(float));
    exchange.all_values(0, kWireMeasuring);
    const Stopwatch watch;
    wire(std::span<const float>(part), {part.data(), false});
    WireTiming slowest;
    for (const WireTiming& timing :
         exchange.all_values(WireTiming{watch.seconds(), begun.seconds()}, kWireMeasuring)) {
      slowest.seconds = std::max(slowest.seconds, timing.seconds);
      slowest.elapsed = std::max(slowest.elapsed, timing.elapsed);
    }
    return slowest;
  };
  const std::vector<WireWay> ways = wire_ways(exchange.size());
  if (ways.size() > 1) {
    std::vector<WireChoice> measured = quickest_ways(ways, trial);
    if (!measured.empty()) choices = std::move(measured);
  }
  wire.use(type, choices);
  wire.take_count();
}

}  // namespace tp
