#pragma once

#include "model/tokenizer/text/string_set.h"
#include "model/tokenizer/text/vocabulary.h"
#include "tp/token_id.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// BERT's model: cuts a word from left to right, each time after the longest matching token. Tokens that
// continue a word have a prefix in the vocabulary ("##ing"), which may be empty. A word that cannot be cut
// completely, or has too many characters, becomes one unknown token.
class WordPiece {
 public:
  struct Options {
    TokenId unknown = 0;
    std::string continuing_prefix = "##";
    std::size_t max_characters = 100;  // largest number of characters per word
  };

  // `vocabulary` must contain `options.unknown`.
  WordPiece(Vocabulary vocabulary, Options options);

  // Appends the tokens of a word (well-formed UTF-8). The time is proportional to the length of the word
  // times the length of the longest token.
  void encode(std::string_view word, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Whether tokens are the same at the beginning of a word and later.
  bool continues_as_it_begins() const { return options_.continuing_prefix.empty(); }

 private:
  bool cut(std::string_view word, std::vector<TokenId>& out) const;

  Vocabulary vocabulary_;
  Options options_;
  StringSet beginnings_;  // all tokens; values are ids
  // Tokens with the prefix, which is removed here; values are ids. Empty if the prefix is empty.
  StringSet continuations_;
};

}  // namespace tp
