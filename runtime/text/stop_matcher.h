// Finds stop texts in streamed text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Holds back text that may be the beginning of a stop text. The stop text that is completed first wins. If
// several stop texts end at the same place, the longest wins.
class StopMatcher {
 public:
  // `include`: the stop text is part of the output.
  explicit StopMatcher(std::vector<std::string> stops, bool include = false)
      : stops_(std::move(stops)), include_(include) {}

  // Adds a piece and returns the text that can be output now. After a match, that is the text before the stop
  // text, or including it with `include`.
  std::string push(const std::string& piece);
  // Ends the text, and returns the text held back.
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
