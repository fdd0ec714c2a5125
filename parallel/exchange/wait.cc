#include "parallel/exchange/wait.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include <fmt/ranges.h>
#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tp {
namespace {

using namespace std::chrono_literals;

// Number of turns that together take about as long as an exchange. If the wait is longer, a rank is busy or
// has no processor.
constexpr int kSpins = 4000;
// On a crowded machine, the same turns may take seconds, during which no look would be taken.
constexpr double kLongestSpin = 0.02;

// Every waiting rank throws this many seconds after the timeout, in case the reporting rank is unreachable.
constexpr double kGrace = 3.0;

// Whether this thread has called Wait::in_background.
thread_local bool is_background = false;

// Time between checks for a message. Each check occupies a processor for about a tenth of this time.
constexpr auto kBackgroundSleep = 50us;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Wait::Wait(const Patience& patience, Manner manner, std::span<const std::size_t> together,
           std::function<Ranks()> missing)
    : patience_(patience), manner_(manner), together_(together), missing_(std::move(missing)) {
  const WaitOptions& options = patience_.options;
  until_report_ = options.patience * manner_.patience;
  until_end_ = options.timeout > 0 ? options.timeout * manner_.patience : INFINITY;
  next_look_ = look_every();
}

void Wait::in_background() { is_background = true; }

double Wait::look_every() const { return std::min(until_report_, until_end_) / 8; }

void Wait::turn() {
  if (turns_ < kSpins && !is_background) {
    ++turns_;
    if (patience_.crowded) {
      sched_yield();
      // On a busy machine, the turns together take longer than the gap that shows a suspension.
      if (check_.was_suspended()) restart();
      if (begun_.seconds() >= kLongestSpin) turns_ = kSpins;
    } else {
      pause();
    }
    return;
  }
  if (check_.was_suspended()) restart();
  if (overdue_.seconds() >= next_look_) look();
  rest();
}

void Wait::restart() {
  begun_.restart();
  overdue_.restart();
  next_look_ = look_every();
}

void Wait::rest() {
  if (is_background && !has_reported_) {
    std::this_thread::sleep_for(kBackgroundSleep);
    return;
  }
  if (!manner_.polite && !has_reported_) {
    sched_yield();
    return;
  }
  std::this_thread::sleep_for(sleep_);
  const auto longest = begun_.seconds() < 1.0 ? 1ms : 20ms;
  sleep_ = std::min<std::chrono::microseconds>(sleep_ * 2, longest);
}

void Wait::look() {
  const WaitOptions& options = patience_.options;
  const Ranks missing = missing_();
  if (is_no_news(missing)) {
    overdue_.restart();
    if (!manner_.root_has_time && begun_.seconds() >= until_end_ + kGrace)
      throw_error<CommError>("waited {:.0f} s in {}, more than `timeout` allows", begun_.seconds(),
                             manner_.collective);
  } else if (overdue_.seconds() >= until_end_ &&
             (speaks(missing) || overdue_.seconds() >= until_end_ + kGrace)) {
    throw_error<CommError>(
        "{}, more than `timeout` allows; it may be stopped, swapping or reading from a "
        "slow disk",
        list_ranks(missing));
  } else if (overdue_.seconds() >= until_report_ && !has_reported_) {
    has_reported_ = true;
    if (speaks(missing) && options.on_long_wait) options.on_long_wait(list_ranks(missing));
  }
  next_look_ = overdue_.seconds() + look_every();
}

bool Wait::is_up_to_root(const Ranks& missing) const { return manner_.root_has_time && missing == Ranks{0}; }

bool Wait::is_no_news(const Ranks& missing) const {
  if (!is_up_to_root(missing)) return missing.empty();
  return !patience_.placement.on_own_host(0) || !is_stopped(patience_.placement.processes[0].id);
}

// One waiting rank reports for all of them, because they wait for the same ranks. Only ranks on rank 0's host
// can see whether rank 0 is stopped.
bool Wait::speaks(const Ranks& missing) const {
  for (const std::size_t rank : together_) {
    if (is_up_to_root(missing) && !patience_.placement.on_own_host(rank)) continue;
    if (std::ranges::find(missing, rank) == missing.end()) return rank == patience_.placement.rank;
  }
  return true;
}

std::string Wait::list_ranks(const Ranks& missing) const {
  const Placement& placement = patience_.placement;
  std::vector<std::string> names;
  for (const std::size_t rank : missing) {
    const Placement::Process& process = placement.processes[rank];
    const bool stopped = placement.on_own_host(rank) && is_stopped(process.id);
    names.push_back(fmt::format("rank {} (process {} on {}{})", process.rank, process.id, process.host,
                                stopped ? ", stopped" : ""));
  }
  return fmt::format("waited {:.0f} s in {} for {}", overdue_.seconds(), manner_.collective,
                     fmt::join(names, ", "));
}

}  // namespace tp
