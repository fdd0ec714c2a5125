// The steps that convert tokens to text. Each step works on a stream: it receives the texts of tokens one at
// a time, passes on the text that is final, and keeps the text that depends on later tokens. A copy of a step
// is an independent stream.
//
// After a step that joins all tokens (ByteLevel, Fuse), the later steps see a single token that arrives in
// chunks of whole characters. `joined` means that a step is one of these later steps.
#pragma once

#include "model/tokenizer/steps/metaspace.h"
#include "model/tokenizer/steps/word_decoders.h"
#include "model/tokenizer/text/regex.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tp {

// Each step has
//   push      takes the next token
//   flush     the text so far is complete (a prompt): passes on all but an unfinished character
//   finish    no more tokens follow: passes on the rest
//   bytes_of  returns the bytes that a token adds amid other tokens; they need not be whole characters

// The default decoder: joins tokens with spaces.
class JoinWithSpaces {
 public:
  void push(std::string_view token, TokenTexts& out);
  void flush(TokenTexts&) {}
  void finish(TokenTexts&) {}
  static std::string bytes_of(std::string_view token) { return " " + std::string(token); }

 private:
  bool is_first_ = true;
};

// "ByteLevel": converts characters of the byte-level alphabet to bytes, and the bytes to UTF-8. Each maximal
// ill-formed part becomes U+FFFD. Joins.
class ByteLevelDecoder {
 public:
  void push(std::string_view token, TokenTexts& out);
  void flush(TokenTexts&) {}
  void finish(TokenTexts& out);
  static std::string bytes_of(std::string_view token);

 private:
  std::string pending_;  // beginning of a character
};

// "ByteFallback": converts runs of tokens <0xNN> to the characters with these bytes. If a run is not UTF-8,
// each of its bytes becomes U+FFFD, including bytes that form characters. So a run's text is final only at
// its end.
class ByteFallbackDecoder {
 public:
  void push(std::string_view token, TokenTexts& out);
  void flush(TokenTexts& out);
  void finish(TokenTexts& out);
  static std::string bytes_of(std::string_view token);

 private:
  void push_byte(char byte, TokenTexts& out);

  std::string run_;
  std::size_t complete_ = 0;  // bytes of the run that form whole characters
  bool is_broken_ = false;    // the run is not UTF-8, and its bytes so far were passed on
};

// "Replace".
class ReplaceDecoder {
 public:
  // `literal`: the pattern as text, if it is not a regular expression. Required if `joined`.
  ReplaceDecoder(Regex pattern, std::optional<std::string> literal, std::string content, bool joined);

  void push(std::string_view token, TokenTexts& out);
  void flush(TokenTexts& out);
  void finish(TokenTexts& out) { flush(out); }
  std::string bytes_of(std::string_view token) const;

 private:
  Regex pattern_;
  std::string literal_;
  std::string content_;
  bool joined_;
  std::string pending_;  // beginning of a match
};

// "Strip": removes up to `start` and `stop` characters from the ends of each token, if they equal
// `character`.
class StripDecoder {
 public:
  StripDecoder(std::string character, std::size_t start, std::size_t stop, bool joined);

  void push(std::string_view token, TokenTexts& out);
  void flush(TokenTexts& out);
  void finish(TokenTexts&) {}
  std::string bytes_of(std::string_view token) const;

 private:
  std::string_view without_start(std::string_view text);
  // The length in bytes of the final run of the character, limited to `stop` characters.
  std::size_t strippable_end(std::string_view text) const;

  std::string character_;
  std::size_t start_;
  std::size_t stop_;
  bool joined_;
  std::size_t start_left_;
  std::string pending_;  // possible end of the text
};

// "Metaspace": converts marks to spaces. The first token loses its marks, unless the scheme is `never`.
class MetaspaceDecoder {
 public:
  MetaspaceDecoder(const std::string& mark, PrependScheme scheme, bool joined);

  void push(std::string_view token, TokenTexts& out);
  void flush(TokenTexts&) {}
  void finish(TokenTexts&) {}
  std::string bytes_of(std::string_view token) const { return mark_.replace(token, " "); }

 private:
  Regex mark_;
  bool joined_;
  bool drops_marks_;
};

using DecoderPart =
    std::variant<JoinWithSpaces, ByteLevelDecoder, ByteFallbackDecoder, ReplaceDecoder, StripDecoder,
                 MetaspaceDecoder, WordPieceDecoder, WordEndDecoder, CtcDecoder>;

}  // namespace tp
