#pragma once

#include "model/files/json_node.h"

#include <functional>
#include <string>
#include <vector>

namespace tp {

// Rewrites a text before it is cut into pieces, step by step.
class Normalizer {
 public:
  // Well-formed UTF-8 to well-formed UTF-8.
  using Step = std::function<std::string(std::string)>;

  // A normalizer that changes nothing.
  Normalizer() = default;
  explicit Normalizer(Step step) : steps_{std::move(step)} {}

  // `json`: the value of "normalizer". Throws CheckpointError.
  static Normalizer from_json(const JsonNode& json);

  // `text` is well-formed UTF-8, and so is the result. Throws RequestError when a pattern needs too many
  // steps.
  std::string operator()(std::string text) const;

 private:
  static Step step_from_json(const JsonNode& json);

  std::vector<Step> steps_;
};

}  // namespace tp
