// Finds stop texts in text that arrives in pieces.
#pragma once

#include <string>
#include <vector>

namespace tp {

// Text that could be the beginning of a stop text is held back until it is clear whether it is one. The stop
// text that is complete first ends the text; of several that end together, the longest.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Adds a piece; returns what can be shown now. After a match: the text before the stop text.
  std::string push(const std::string& piece);
  // The end of the text: returns what was held back.
  std::string finish();
  bool matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace tp
