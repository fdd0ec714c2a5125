// Steps of decoders (see decoder_parts.h) that put words together. They work on tokens, before these are
// joined.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

using TokenTexts = std::vector<std::string>;

// "WordPiece": spaces before tokens that begin a word; those that go on with one lose their prefix.
class WordPieceDecoder {
 public:
  // `cleans_up`: spaces before punctuation and English endings are removed within every token.
  WordPieceDecoder(std::string prefix, bool cleans_up) : prefix_(std::move(prefix)), cleans_up_(cleans_up) {}

  void push(std::string_view token, TokenTexts& out);
  void settle(TokenTexts&) {}
  void finish(TokenTexts&) {}

 private:
  std::string prefix_;
  bool cleans_up_;
  bool is_first_ = true;
};

// "BPEDecoder": the suffix that ends words becomes a space, in the last token nothing.
class WordEndDecoder {
 public:
  // `suffix` is not empty.
  explicit WordEndDecoder(std::string suffix) : suffix_(std::move(suffix)) {}

  void push(std::string_view token, TokenTexts& out);
  void settle(TokenTexts& out);
  void finish(TokenTexts& out);
  std::string bytes_of(std::string_view token) const;

 private:
  std::string suffix_;
  std::optional<std::string> pending_;  // a token with the suffix, which may be the last
};

// "CTC", of speech recognition: repeated tokens count once, padding is left out, and words end at a
// delimiter.
class CtcDecoder {
 public:
  // `delimiter` is not empty. Without `cleans_up` it stays, too.
  CtcDecoder(std::string padding, std::string delimiter, bool cleans_up)
      : padding_(std::move(padding)), delimiter_(std::move(delimiter)), cleans_up_(cleans_up) {}

  void push(std::string_view token, TokenTexts& out);
  void settle(TokenTexts&) {}
  void finish(TokenTexts&) {}

 private:
  std::string padding_;
  std::string delimiter_;
  bool cleans_up_;
  std::optional<std::string> previous_;
};

}  // namespace tp
