#pragma once

#include "model/files/json_node.h"

#include <functional>
#include <string>
#include <vector>

namespace tp {

// Rewrites a text step by step, before it is cut into pieces.
class Normalizer {
 public:
  // Converts well-formed UTF-8 to well-formed UTF-8.
  using Step = std::function<std::string(std::string)>;

  // A normalizer that changes nothing.
  Normalizer() = default;
  explicit Normalizer(Step step) : steps_{std::move(step)} {}

  // `json`: the value of "normalizer". Throws CheckpointError.
  static Normalizer from_json(const JsonNode& json);

  // `text` must be well-formed UTF-8, and the result is well-formed, too. Throws RequestError if a pattern
  // needs too many steps.
  std::string operator()(std::string text) const;

 private:
  static Step step_from_json(const JsonNode& json);

  std::vector<Step> steps_;
};

}  // namespace tp
