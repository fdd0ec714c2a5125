#pragma once

#include "runtime/protocol/step_times.h"

#include <cstddef>
#include <vector>

namespace tp {

// Predicts how long steps take by their number of rows. A decode step reads all weights, so further rows cost
// little until arithmetic takes longer than reading.
class RowCosts {
 public:
  // A measured step.
  struct Point {
    std::size_t rows = 0;
    double seconds = 0.0;
  };

  // `points`: at least one, with ascending rows. Predictions never fall as rows increase. After the last
  // point, a row costs as much as the average row of the last point.
  explicit RowCosts(std::vector<Point> points);

  // Predicts the seconds of a step with this many rows. `has_drafts`: some of them are draft tokens.
  double seconds(std::size_t rows, bool has_drafts) const;

  // Records a step without prompts; 0 seconds: unknown. Needed because longer contexts and other load on the
  // machine change the times that were measured first. Steps with and without drafts are recorded separately.
  void observe(std::size_t rows, bool has_drafts, double seconds);

  // Whether steps with drafts were recorded recently.
  bool knows_drafts() const { return !drafted_.empty(); }
  std::size_t drafted_in_a_row() const { return drafted_steps_; }

 private:
  double measured(std::size_t rows) const;

  std::vector<Point> points_;
  // Recorded times, divided by measured times.
  RecentMedian plain_;
  RecentMedian drafted_;
  std::size_t plain_steps_ = 0;    // steps since the last step with drafts
  std::size_t drafted_steps_ = 0;  // steps since the last step without drafts
};

}  // namespace tp
