#pragma once

#include "parallel/exchange/placement.h"
#include "parallel/machine/stopwatch.h"
#include "parallel/machine/suspension_check.h"
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
  bool crowded = false;  // ranks share processors, so a waiting rank must yield instead of spinning
};

// A wait for other ranks. It begins when the object is constructed:
//
//   Wait wait(...);
//   while (!it_has_come()) wait.turn();
//
// Turns spin at first. Later turns yield the processor or, if the wait is polite, sleep. One rank reports a
// long wait, once, to WaitOptions::on_long_wait. After WaitOptions::timeout, the reporting rank throws. The
// other ranks throw a few seconds later, in case the first error does not end them. Both times begin again if
// this process was suspended.
class Wait {
 public:
  struct Manner {
    const char* collective = "";  // "an all-reduce"
    bool polite = false;          // turns soon sleep, because the wait may be long
    // Whether rank 0 may be late for a good reason, such as waiting for user input. If so, a wait for rank 0
    // alone is reported only if rank 0's process is stopped.
    bool root_has_time = false;
    double patience = 1.0;  // multiplies WaitOptions::patience and WaitOptions::timeout
  };
  using Ranks = std::vector<std::size_t>;

  // `together` lists the ranks that wait for the same event, including this rank. The first of them that is
  // not missing reports the wait. `missing` returns the ranks that this rank is still waiting for, or no
  // ranks if other ranks report the wait.
  Wait(const Patience& patience, Manner manner, std::span<const std::size_t> together,
       std::function<Ranks()> missing);

  // Makes all later waits of the calling thread sleep briefly in every turn instead of spinning, because
  // other threads compute on the same processors.
  static void in_background();

  // Waits briefly. Call it repeatedly until the awaited event happens. Throws CommError after the timeout.
  void turn();

 private:
  void look();
  void restart();
  void rest();
  double look_every() const;
  bool is_up_to_root(const Ranks& missing) const;
  bool speaks(const Ranks& missing) const;
  bool is_no_news(const Ranks& missing) const;
  std::string list_ranks(const Ranks& missing) const;

  const Patience& patience_;
  Manner manner_;
  std::span<const std::size_t> together_;
  std::function<Ranks()> missing_;
  int turns_ = 0;
  bool has_reported_ = false;
  double until_report_ = 0.0;  // seconds; overdue_.seconds() is compared with this and the next two
  double until_end_ = 0.0;
  double next_look_ = 0.0;
  Stopwatch begun_;
  Stopwatch overdue_;
  SuspensionCheck check_;
  std::chrono::microseconds sleep_{20};
};

}  // namespace tp
