// Regular expressions over UTF-8 text, run by PCRE2.
#pragma once

#include "model/tokenizer/text/span.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// A pattern that cannot be compiled; the text says why. Readers of files turn it into a CheckpointError.
class RegexError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A compiled pattern. Copies are cheap and share the compiled code; all of it may be used by several threads.
class Regex {
 public:
  // A pattern in the dialect of Oniguruma, which the `tokenizers` library uses. Throws RegexError.
  static Regex from_oniguruma(std::string_view pattern);
  // A pattern in the dialect of Python's re.match, which begins() then calls. Throws RegexError.
  static Regex from_python(std::string_view pattern);
  // A pattern that matches `text` and nothing else.
  static Regex literal(std::string_view text);

  // All matches from left to right. They do not overlap; an empty match directly behind another match is left
  // out. `text` must be well-formed UTF-8. Throws RequestError when the search exceeds its limit of steps.
  std::vector<Span> matches(std::string_view text) const;

  // Whether a match begins where `text` begins. Throws RegexError when the search exceeds a limit of steps,
  // which suits short texts.
  bool begins(std::string_view text) const;

  // `text` with every match replaced by `replacement`, literally.
  std::string replace(std::string_view text, std::string_view replacement) const;

 private:
  struct Program;

  explicit Regex(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  static Regex compile(std::string_view pattern, unsigned options);

  std::shared_ptr<const Program> program_;
};

}  // namespace tp
