// Matches layers against a list in quantization_config.
#pragma once

#include "model/tokenizer/text/regex.h"

#include <string>
#include <unordered_set>
#include <vector>

namespace tp {

// A pattern is a layer's name, a part of the name between dots, or either with wildcards ("*"). After "re:"
// it is a regular expression for Python's re.match. "Linear" matches all layers. The part "language_model"
// may be missing in a pattern, or have a different place.
class LayerPatterns {
 public:
  LayerPatterns() = default;
  // Throws ConfigError, naming `file`, if a regular expression cannot be compiled.
  LayerPatterns(const std::vector<std::string>& patterns, std::string file);

  bool empty() const { return !has_all_ && names_.empty() && wildcards_.empty() && expressions_.empty(); }
  // `layer`: well-formed UTF-8. Throws ConfigError if a regular expression takes too many steps.
  bool match(const std::string& layer) const;

 private:
  bool has_all_ = false;
  std::unordered_set<std::string> names_;  // without wildcards
  std::vector<std::string> wildcards_;
  std::vector<Regex> expressions_;
  std::string file_;
};

}  // namespace tp
