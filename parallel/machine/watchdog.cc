#include "parallel/machine/watchdog.h"

#include "parallel/machine/stopwatch.h"
#include "parallel/machine/suspension_check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace tp {

Watchdog::Watchdog(std::string to_what, WaitOptions waits,
                   std::function<void(const std::string& text)> on_timeout)
    : to_what_(std::move(to_what)), waits_(std::move(waits)), on_timeout_(std::move(on_timeout)) {
  const auto run = [](void* self) -> void* {
    static_cast<Watchdog*>(self)->watch();
    return nullptr;
  };
  is_watching_ = pthread_create(&thread_, nullptr, run, this) == 0;
}

Watchdog::~Watchdog() {
  if (!is_watching_) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  pthread_join(thread_, nullptr);
}

bool Watchdog::passed(double seconds) {
  constexpr double kLookEvery = SuspensionCheck::kLongestGap / 4;
  std::unique_lock lock(mutex_);
  Stopwatch waited;
  SuspensionCheck check;
  while (waited.seconds() < seconds) {
    const double pause = std::min(seconds - waited.seconds(), kLookEvery);
    if (changed_.wait_for(lock, std::chrono::duration<double>(pause), [this] { return is_over_; }))
      return false;
    if (check.was_suspended()) waited.restart();
  }
  return true;
}

void Watchdog::watch() {
  const auto text = [this](double seconds) {
    return fmt::format("waited {:.0f} s for the other ranks to {}", seconds, to_what_);
  };
  const bool ends = waits_.timeout > 0;
  const bool ends_first = ends && waits_.timeout <= waits_.patience;
  if (!ends_first) {
    if (!passed(waits_.patience)) return;
    waits_.on_long_wait(text(waits_.patience));
    if (!ends) return;
  }
  if (passed(ends_first ? waits_.timeout : waits_.timeout - waits_.patience))
    on_timeout_(text(waits_.timeout));
}

}  // namespace tp
