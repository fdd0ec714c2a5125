// Waiting for other ranks, with reports and timeouts.
#pragma once

#include "parallel/exchange/placement.h"
#include "parallel/machine/stopwatch.h"
#include "tp/communicator.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tp {

// State shared by all waits of a communicator.
struct Patience {
  const Placement& placement;
  WaitOptions options;
  bool crowded = false;  // more ranks than processors: waiting must not spin
};

// A wait, which begins with its construction:
//
//   Wait wait(...);
//   while (!it_has_come()) wait.turn();
//
// Turns spin at first. Later turns yield the processor or, if the wait is polite, sleep. One rank reports a
// long wait, once, to WaitOptions::on_long_wait. A wait longer than WaitOptions::timeout is an error on the
// reporting rank. Other ranks throw a few seconds later, in case the first error does not end them.
class Wait {
 public:
  struct Manner {
    const char* collective = "";  // "an all-reduce"
    bool polite = false;          // turns soon sleep, because the wait may be long
    // Whether rank 0 may be late for good reasons, such as waiting for user input. If rank 0 is then the only
    // missing rank, the wait is reported only if rank 0's process is stopped.
    bool root_has_time = false;
    double patience = 1.0;  // factor for WaitOptions::patience and WaitOptions::timeout
  };
  using Ranks = std::vector<std::size_t>;

  // `together`: the ranks that wait for the same event, including this rank. The first of these ranks that is
  // not missing reports the wait. `missing` returns the ranks that this rank still waits for; empty if other
  // ranks report the wait.
  Wait(const Patience& patience, Manner manner, std::span<const std::size_t> together,
       std::function<Ranks()> missing);

  // From now on, waits of the calling thread don't spin: every turn sleeps briefly, because other threads
  // compute on the processors.
  static void in_background();

  // Waits briefly. Call it repeatedly until the awaited event happens. Throws CommError after the timeout.
  void turn();

 private:
  void look();
  void rest();
  double look_every() const;
  bool is_up_to_root(const Ranks& missing) const;
  bool speaks(const Ranks& missing) const;
  bool is_no_news(const Ranks& missing) const;
  std::string text_of(const Ranks& missing) const;

  const Patience& patience_;
  Manner manner_;
  std::span<const std::size_t> together_;
  std::function<Ranks()> missing_;
  int turns_ = 0;
  bool told_ = false;
  double until_told_ = 0.0;  // in seconds of overdue_, like the next two members
  double until_end_ = 0.0;
  double next_look_ = 0.0;
  Stopwatch begun_;
  Stopwatch overdue_;
  std::chrono::microseconds sleep_{20};
};

}  // namespace tp
