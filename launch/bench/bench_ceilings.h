// What the machine reaches at best while it is measured.
#pragma once

#include "parallel/machine/stopwatch.h"
#include "tp/engine.h"
#include "tp/peak_rates.h"

namespace tp {

// The peak rates before and behind a piece of work. A shared machine changes its speed within seconds, so
// that a rate of long ago says nothing about a measurement of now.
class BenchCeilings {
 public:
  // `peaks`: as they were a moment ago. `engine` must outlive it.
  BenchCeilings(Engine& engine, const PeakRates& peaks);

  // Measures again, unless that was within the last second, or there is no memory for it; what was measured
  // last is `before` then. Throws LockstepError.
  void measure();

  const PeakRates& before() const { return before_; }
  const PeakRates& after() const { return after_; }
  // Of the two.
  PeakRates mean() const;

  // Of all measurements, in bytes a second.
  double least_streaming() const { return least_streaming_; }
  double most_streaming() const { return most_streaming_; }

 private:
  Engine& engine_;
  PeakRates before_;
  PeakRates after_;
  Stopwatch since_;
  double least_streaming_;
  double most_streaming_;
};

}  // namespace tp
