// Finds stop texts in text that arrives in pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Text that could be the beginning of a stop text is held back until it is clear whether it is one. The stop
// text that is complete first ends the text; of several that end together, the longest.
class StopMatcher {
 public:
  // With `include`, the stop text is shown too.
  explicit StopMatcher(std::vector<std::string> stops, bool include = false)
      : stops_(std::move(stops)), include_(include) {}

  // Adds a piece; returns what can be shown now. After a match: the text before the stop text.
  std::string push(const std::string& piece);
  // The end of the text: returns what was held back.
  std::string finish();
  bool matched() const { return match_.has_value(); }
  // The stop text that ended it; there must be one.
  const std::string& match() const { return stops_[*match_]; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool include_;
  std::optional<std::size_t> match_;  // of stops_
};

}  // namespace tp
