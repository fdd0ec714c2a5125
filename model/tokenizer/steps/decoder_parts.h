// The steps that make text of tokens. Every step works on a stream: it is given the texts of the tokens one
// at a time, hands on what is certain, and keeps what depends on tokens to come. A copy of a step is a stream
// of its own.
//
// After a step that joins all tokens to one (ByteLevel, Fuse), the steps behind it see one token that comes
// in chunks of whole characters; that is what `joined` means.
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

// Every step has
//   push     takes the next token
//   settle   the text so far is complete (a prompt): hands on all but the beginning of an unfinished
//   character finish   there are no more tokens: hands on the rest
//   bytes_of gives the bytes that a token adds to a text amid others, which need not be whole characters

// Without "decoder": tokens with a space between each two.
class JoinWithSpaces {
 public:
  void push(std::string_view token, TokenTexts& out);
  void settle(TokenTexts&) {}
  void finish(TokenTexts&) {}
  static std::string bytes_of(std::string_view token) { return " " + std::string(token); }

 private:
  bool is_first_ = true;
};

// "ByteLevel": characters of the byte-level alphabet to bytes, and these to UTF-8; each maximal ill-formed
// part becomes U+FFFD. Joins.
class ByteLevelDecoder {
 public:
  void push(std::string_view token, TokenTexts& out);
  void settle(TokenTexts&) {}
  void finish(TokenTexts& out);
  static std::string bytes_of(std::string_view token);

 private:
  std::string pending_;  // the beginning of a character
};

// "ByteFallback": runs of tokens <0xNN> to the characters whose bytes they are. If a run is not UTF-8, each
// of its bytes becomes U+FFFD, also those that would be characters: so its text is certain only at its end.
class ByteFallbackDecoder {
 public:
  void push(std::string_view token, TokenTexts& out);
  void settle(TokenTexts& out);
  void finish(TokenTexts& out);
  static std::string bytes_of(std::string_view token);

 private:
  void push_byte(char byte, TokenTexts& out);

  std::string run_;
  std::size_t complete_ = 0;  // bytes of the run that are whole characters
  bool is_broken_ = false;    // the run is not UTF-8; its bytes so far have been handed on
};

// "Replace".
class ReplaceDecoder {
 public:
  // `literal`: the pattern as text, if it is no regular expression; it must be when `joined`.
  ReplaceDecoder(Regex pattern, std::optional<std::string> literal, std::string content, bool joined);

  void push(std::string_view token, TokenTexts& out);
  void settle(TokenTexts& out);
  void finish(TokenTexts& out) { settle(out); }
  std::string bytes_of(std::string_view token) const;

 private:
  Regex pattern_;
  std::string literal_;
  std::string content_;
  bool joined_;
  std::string pending_;  // the beginning of a match
};

// "Strip": up to `start` and `stop` times a character from the ends of every token.
class StripDecoder {
 public:
  StripDecoder(std::string character, std::size_t start, std::size_t stop, bool joined);

  void push(std::string_view token, TokenTexts& out);
  void settle(TokenTexts& out);
  void finish(TokenTexts&) {}
  std::string bytes_of(std::string_view token) const;

 private:
  std::string_view without_start(std::string_view text);
  // Length in bytes of the last up to `stop` times the character.
  std::size_t strippable_end(std::string_view text) const;

  std::string character_;
  std::size_t start_;
  std::size_t stop_;
  bool joined_;
  std::size_t start_left_;
  std::string pending_;  // what may be the end of the text
};

// "Metaspace": marks to spaces. The first token loses its marks unless the scheme is `never`.
class MetaspaceDecoder {
 public:
  MetaspaceDecoder(const std::string& mark, PrependScheme scheme, bool joined);

  void push(std::string_view token, TokenTexts& out);
  void settle(TokenTexts&) {}
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
