// Oniguruma, the engine of the `tokenizers` library. A separate file, because its header and <regex.h>, which
// GoogleTest includes, define the same names.
#pragma once

#include "model/tokenizer/text/span.h"

#include <memory>
#include <string>
#include <vector>

namespace tp::testing {

class OnigurumaPattern {
 public:
  // Compiles with the default syntax and without options, like the `onig` crate. Throws std::runtime_error
  // for an invalid pattern.
  explicit OnigurumaPattern(const std::string& pattern);

  // Returns the matches like `tokenizers` finds them: an empty match directly after another match is omitted.
  std::vector<Span> matches(const std::string& text) const;

  // Whether [[:punct:]] includes symbols: since 6.9.9.
  static bool has_symbols_in_punct();

 private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

}  // namespace tp::testing
