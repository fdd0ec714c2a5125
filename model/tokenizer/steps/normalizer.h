#pragma once

#include "model/files/json_node.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tp {

// Rewrites a text step by step, before it is cut into pieces.
class Normalizer {
 public:
  // Converts well-formed UTF-8 to well-formed UTF-8.
  using Rewrite = std::function<std::string(std::string)>;

  // A normalizer that changes nothing.
  Normalizer() = default;
  explicit Normalizer(Rewrite rewrite) : steps_{{std::move(rewrite)}} {}

  // `json`: the value of "normalizer". Throws CheckpointError.
  static Normalizer from_json(const JsonNode& json);

  // `text` must be well-formed UTF-8, and the result is well-formed, too. Throws RequestError if a pattern
  // needs too many steps.
  std::string operator()(std::string text) const;
  // `start`: the number of leading bytes that come from the first character of the user's text, before and
  // after. A step that deletes this character makes it 0.
  std::string operator()(std::string text, std::size_t& start) const;

 private:
  struct Step {
    Rewrite rewrite;
    // `start` after the step, for texts in which it is not 0. Without a function, the step rewrites
    // characters independently of their neighbours.
    std::function<std::size_t(const std::string& text, std::size_t start)> start_after{};
  };

  static Rewrite rewrite_from_json(const JsonNode& json);
  static Step step_from_json(const JsonNode& json);

  std::vector<Step> steps_;
};

}  // namespace tp
