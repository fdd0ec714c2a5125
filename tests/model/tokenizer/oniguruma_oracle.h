// Oniguruma, the engine of the `tokenizers` library. Apart from the tests, because its header and <regex.h>,
// which GoogleTest includes, define the same names.
#pragma once

#include "model/tokenizer/text/span.h"

#include <memory>
#include <string>
#include <vector>

namespace tp::testing {

class OnigurumaPattern {
 public:
  // The `onig` crate compiles with the default syntax and without options, and so does this. Throws
  // std::runtime_error for a pattern that Oniguruma refuses.
  explicit OnigurumaPattern(const std::string& pattern);

  // The matches as `tokenizers` goes through a text: an empty one directly behind another is left out.
  std::vector<Span> matches(const std::string& text) const;

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace tp::testing
