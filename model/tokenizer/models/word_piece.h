#pragma once

#include "model/tokenizer/text/string_set.h"
#include "model/tokenizer/text/vocabulary.h"
#include "tp/token_id.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// BERT's model: a word is cut from left to right, every time after the longest token that fits. Tokens that
// go on with a word have a prefix in the vocabulary ("##ing"). A word that cannot be cut to its end, or has
// too many characters, is one unknown token.
class WordPiece {
 public:
  struct Options {
    TokenId unknown = 0;
    std::string continuing_prefix = "##";
    std::size_t max_characters = 100;  // of a word
  };

  // `options.unknown` has a token in `vocabulary`.
  WordPiece(Vocabulary vocabulary, Options options);

  // Appends the tokens of a word (well-formed UTF-8). Takes time in its length times that of the longest
  // token.
  void encode(std::string_view word, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  bool cut(std::string_view word, std::vector<TokenId>& out) const;

  Vocabulary vocabulary_;
  Options options_;
  StringSet beginnings_;     // all tokens; values are ids
  StringSet continuations_;  // those with the prefix, without it
};

}  // namespace tp
