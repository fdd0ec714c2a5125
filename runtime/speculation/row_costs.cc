#include "runtime/speculation/row_costs.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tp {

RowCosts::RowCosts(std::vector<Point> points) : points_(std::move(points)) {
  if (points_.empty()) throw std::logic_error("no step was measured");
  for (std::size_t i = 1; i < points_.size(); ++i)
    points_[i].seconds = std::max(points_[i].seconds, points_[i - 1].seconds);
}

// Interpolates linearly between the points. After the last point, time is proportional to the rows: the last
// segment's slope may be too small by accident, and too many rows would be tried.
double RowCosts::measured(std::size_t rows) const {
  if (rows <= points_.front().rows) return points_.front().seconds;
  const auto right = std::ranges::lower_bound(points_, rows, {}, &Point::rows);
  if (right == points_.end()) {
    const Point& last = points_.back();
    return last.seconds * static_cast<double>(rows) / static_cast<double>(last.rows);
  }
  const Point& from = *(right - 1);
  const double slope = (right->seconds - from.seconds) / static_cast<double>(right->rows - from.rows);
  return from.seconds + slope * static_cast<double>(rows - from.rows);
}

double RowCosts::seconds(std::size_t rows, bool has_drafts) const {
  const RecentMedian& recent = has_drafts && !drafted_.empty() ? drafted_ : plain_;
  return measured(rows) * (recent.empty() ? 1.0 : recent.value());
}

void RowCosts::observe(std::size_t rows, bool has_drafts, double seconds) {
  // Forgets times of steps with drafts after this many steps without drafts. Otherwise steps that took too
  // long would rule out drafts forever.
  constexpr std::size_t kForgotten = 32;
  if (!has_drafts) drafted_steps_ = 0;
  if (seconds <= 0.0 || measured(rows) <= 0.0) return;
  (has_drafts ? drafted_ : plain_).add(seconds / measured(rows));
  plain_steps_ = has_drafts ? 0 : plain_steps_ + 1;
  if (has_drafts) ++drafted_steps_;
  if (plain_steps_ == kForgotten) drafted_ = {};
}

}  // namespace tp
