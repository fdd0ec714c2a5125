// Finds out that a process was suspended.
#pragma once

#include "parallel/machine/stopwatch.h"

namespace tp {

// Whether this process was suspended between two looks at a clock, for example by SIGSTOP, Slurm or `docker
// pause`. Other processes were probably suspended, too, so a timeout must begin again. Construction is the
// first look.
class SuspensionCheck {
 public:
  static constexpr double kLongestGap = 1.0;  // seconds; whoever waits looks much more often

  // Looks at the clock. Returns true if the last look was more than kLongestGap ago.
  bool was_suspended() { return since_look_.restart() > kLongestGap; }

 private:
  Stopwatch since_look_;
};

}  // namespace tp
