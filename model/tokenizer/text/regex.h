// Regular expressions over UTF-8 text, executed by PCRE2.
#pragma once

#include "model/tokenizer/text/span.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// A pattern that cannot be compiled, with the reason. Readers of files convert it to a CheckpointError.
class RegexError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A compiled pattern. Copies are cheap and share the compiled code. Thread-safe.
class Regex {
 public:
  // Compiles a pattern in the dialect of Oniguruma, which the `tokenizers` library uses. Throws RegexError.
  static Regex from_oniguruma(std::string_view pattern);
  // Compiles a pattern in the dialect of Python's re.match, for begins(). Throws RegexError.
  static Regex from_python(std::string_view pattern);
  // Compiles a pattern that matches only `text`.
  static Regex literal(std::string_view text);

  // All matches from left to right, without overlaps, and without empty matches directly after another match.
  // `text` must be well-formed UTF-8. Throws RequestError if the search exceeds its step limit.
  std::vector<Span> matches(std::string_view text) const;

  // Whether a match begins at the start of `text`. Throws RegexError if the search exceeds a step limit for
  // short texts.
  bool begins(std::string_view text) const;

  // `text` with each match replaced by the literal `replacement`.
  std::string replace(std::string_view text, std::string_view replacement) const;

 private:
  struct Program;

  explicit Regex(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  static Regex compile(std::string_view pattern, unsigned options);

  std::shared_ptr<const Program> program_;
};

}  // namespace tp
