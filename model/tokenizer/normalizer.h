#pragma once

#include "model/weights/checkpoint/json_node.h"

#include <functional>
#include <string>
#include <vector>

namespace tp {

// Rewrites a text before it is cut into pieces, step by step.
class Normalizer {
 public:
  // A normalizer that changes nothing.
  Normalizer() = default;

  // `json`: the value of "normalizer". Throws CheckpointError.
  static Normalizer from_json(const JsonNode& json);

  // `text` is well-formed UTF-8, and so is the result. Throws RequestError when a pattern needs too many
  // steps.
  std::string operator()(std::string text) const;

 private:
  using Step = std::function<std::string(std::string)>;

  static Step step_from_json(const JsonNode& json);

  std::vector<Step> steps_;
};

}  // namespace tp
