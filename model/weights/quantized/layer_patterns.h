// Which layers a list in quantization_config names.
#pragma once

#include "model/tokenizer/text/regex.h"

#include <string>
#include <vector>

namespace tp {

// A pattern is a layer's name, a part of it between dots, or either of them with wildcards ("*"). After "re:"
// it is an expression of Python's re.match. "Linear" names all layers.
class LayerPatterns {
 public:
  LayerPatterns() = default;
  // Throws ConfigError, which names `file`, for an expression that cannot be compiled.
  LayerPatterns(const std::vector<std::string>& patterns, std::string file);

  bool empty() const { return !has_all_ && names_.empty() && expressions_.empty(); }
  // `layer`: well-formed UTF-8. Throws ConfigError for an expression that takes too many steps.
  bool match(const std::string& layer) const;

 private:
  bool has_all_ = false;
  std::vector<std::string> names_;
  std::vector<Regex> expressions_;
  std::string file_;
};

}  // namespace tp
