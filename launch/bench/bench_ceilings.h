// The machine's peak rates around each measurement.
#pragma once

#include "parallel/machine/stopwatch.h"
#include "tp/engine.h"
#include "tp/peak_rates.h"

namespace tp {

// The peak rates before and after a measurement. A shared machine changes its speed within seconds, so an old
// rate says nothing about a new measurement.
class BenchCeilings {
 public:
  // `peaks`: measured just now. `engine` must outlive this object.
  BenchCeilings(Engine& engine, const PeakRates& peaks);

  // Measures the peak rates again, unless the last measurement is less than a second old or memory is short.
  // The previous rates become before(). Throws LockstepError.
  void measure();

  const PeakRates& before() const { return before_; }
  const PeakRates& after() const { return after_; }
  // Returns the mean of before() and after().
  PeakRates mean() const;

  // The slowest and fastest streaming rates of all measurements, in bytes per second.
  double min_streaming() const { return min_streaming_; }
  double max_streaming() const { return max_streaming_; }

 private:
  Engine& engine_;
  PeakRates before_;
  PeakRates after_;
  Stopwatch since_;
  double min_streaming_;
  double max_streaming_;
};

}  // namespace tp
