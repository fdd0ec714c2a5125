#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tp {

// Events per second, over the last few seconds. Not thread-safe.
class RateMeter {
 public:
  using Clock = std::chrono::steady_clock;

  void add(std::uint64_t count, Clock::time_point time = Clock::now()) {
    Slot& slot = slots_[static_cast<std::size_t>(second_of(time)) % slots_.size()];
    if (slot.second != second_of(time)) slot = {second_of(time), 0};
    slot.count += count;
  }

  // The current second is incomplete and does not count.
  double rate(Clock::time_point time = Clock::now()) const {
    std::uint64_t sum = 0;
    for (const Slot& slot : slots_) {
      const std::int64_t age = second_of(time) - slot.second;
      if (age >= 1 && age <= kSeconds) sum += slot.count;
    }
    return static_cast<double>(sum) / kSeconds;
  }

 private:
  static constexpr std::int64_t kSeconds = 3;
  struct Slot {
    std::int64_t second = -1;
    std::uint64_t count = 0;
  };

  static std::int64_t second_of(Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  }

  std::array<Slot, kSeconds + 2> slots_{};
};

}  // namespace tp
