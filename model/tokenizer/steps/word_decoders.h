// Steps of decoders (see decoder_parts.h) that combine words. They receive tokens that are not joined yet.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

using TokenTexts = std::vector<std::string>;

// "WordPiece": writes spaces before tokens that begin a word, and removes the prefix of tokens that continue
// a word.
class WordPieceDecoder {
 public:
  // `cleans_up`: removes spaces before punctuation and English endings within each token.
  WordPieceDecoder(std::string prefix, bool cleans_up) : prefix_(std::move(prefix)), cleans_up_(cleans_up) {}

  void push(std::string_view token, TokenTexts& out);
  void flush(TokenTexts&) {}
  void finish(TokenTexts&) {}

 private:
  std::string prefix_;
  bool cleans_up_;
  bool is_first_ = true;
};

// "BPEDecoder": replaces the suffix that ends words with a space, or with nothing in the last token.
class WordEndDecoder {
 public:
  // `suffix` must not be empty.
  explicit WordEndDecoder(std::string suffix) : suffix_(std::move(suffix)) {}

  void push(std::string_view token, TokenTexts& out);
  void flush(TokenTexts& out);
  void finish(TokenTexts& out);
  std::string bytes_of(std::string_view token) const;

 private:
  std::string suffix_;
  std::optional<std::string> pending_;  // token with the suffix, which may be the last token
};

// "CTC" for speech recognition: merges repeated tokens, removes padding, and ends words at a delimiter.
class CtcDecoder {
 public:
  // `delimiter` must not be empty. Without `cleans_up`, delimiters stay in the text.
  CtcDecoder(std::string padding, std::string delimiter, bool cleans_up)
      : padding_(std::move(padding)), delimiter_(std::move(delimiter)), cleans_up_(cleans_up) {}

  void push(std::string_view token, TokenTexts& out);
  void flush(TokenTexts&) {}
  void finish(TokenTexts&) {}

 private:
  std::string padding_;
  std::string delimiter_;
  bool cleans_up_;
  std::optional<std::string> previous_;
};

}  // namespace tp
