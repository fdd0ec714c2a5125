#include "launch/bench/bench_ceilings.h"

#include <algorithm>
#include <optional>

namespace tp {

BenchCeilings::BenchCeilings(Engine& engine, const PeakRates& peaks)
    : engine_(engine),
      before_(peaks),
      after_(peaks),
      min_streaming_(peaks.streaming_bytes_per_second),
      max_streaming_(peaks.streaming_bytes_per_second) {}

void BenchCeilings::measure() {
  constexpr double kOften = 1.0;  // seconds
  before_ = after_;
  if (since_.seconds() < kOften) return;
  const std::optional<PeakRates> now = engine_.peak_rates();
  since_.restart();
  if (!now) return;
  after_ = *now;
  min_streaming_ = std::min(min_streaming_, now->streaming_bytes_per_second);
  max_streaming_ = std::max(max_streaming_, now->streaming_bytes_per_second);
}

PeakRates BenchCeilings::mean() const {
  const auto mean = [&](double PeakRates::*rate) { return (before_.*rate + after_.*rate) / 2; };
  return {mean(&PeakRates::streaming_bytes_per_second), mean(&PeakRates::f32_per_second),
          mean(&PeakRates::bf16_per_second), mean(&PeakRates::int8_per_second)};
}

}  // namespace tp
