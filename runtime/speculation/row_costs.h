#pragma once

#include "runtime/protocol/step_times.h"

#include <cstddef>
#include <vector>

namespace tp {

// How long steps take that compute a number of rows: a decode step reads all weights, and further rows cost
// little until arithmetic takes longer than reading.
class RowCosts {
 public:
  // One measured step.
  struct Point {
    std::size_t rows = 0;
    double seconds = 0.0;
  };

  // `points`: with ascending rows, at least one. More rows never count as quicker than fewer, nor do rows
  // behind the last point as cheaper than those before it are on average.
  explicit RowCosts(std::vector<Point> points);

  // Of a step with this many rows, of which some are draft tokens or none.
  double seconds(std::size_t rows, bool has_drafts) const;

  // A step without prompts took so long (0: unknown). Contexts, neighbours and the machine's other work
  // change what was measured at first; steps with drafts are compared with those without.
  void observe(std::size_t rows, bool has_drafts, double seconds);

  // Whether it has seen steps with drafts recently.
  bool knows_drafts() const { return !drafted_.empty(); }
  std::size_t drafted_in_a_row() const { return drafted_steps_; }

 private:
  double measured(std::size_t rows) const;

  std::vector<Point> points_;
  // What steps took, divided by what was measured.
  RecentMedian plain_;
  RecentMedian drafted_;
  std::size_t plain_steps_ = 0;    // since the last one with drafts
  std::size_t drafted_steps_ = 0;  // since the last one without
};

}  // namespace tp
