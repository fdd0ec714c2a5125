// Finds stop texts in streamed text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Holds back text that may be the beginning of a stop text. The stop text that is completed first wins; among
// several completed at the same place, the longest.
class StopMatcher {
 public:
  // With `include`, the stop text is part of the output.
  explicit StopMatcher(std::vector<std::string> stops, bool include = false)
      : stops_(std::move(stops)), include_(include) {}

  // Adds a piece and returns what can be output now. After a match, that is the text before the stop text.
  std::string push(const std::string& piece);
  // At the end of the text: returns what was held back.
  std::string finish();
  bool matched() const { return match_.has_value(); }
  // The stop text that matched. Requires a match.
  const std::string& match() const { return stops_[*match_]; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool include_;
  std::optional<std::size_t> match_;  // index into stops_
};

}  // namespace tp
