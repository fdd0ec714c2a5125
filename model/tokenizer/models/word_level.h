#pragma once

#include "model/tokenizer/text/vocabulary.h"
#include "tp/token_id.h"

#include <string_view>
#include <vector>

namespace tp {

// Each piece of text becomes one token: its own, or the unknown token.
class WordLevel {
 public:
  // `vocabulary` must contain `unknown`.
  WordLevel(Vocabulary vocabulary, TokenId unknown) : vocabulary_(std::move(vocabulary)), unknown_(unknown) {}

  void encode(std::string_view piece, std::vector<TokenId>& out) const {
    out.push_back(vocabulary_.find(piece).value_or(unknown_));
  }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  TokenId unknown_;
};

}  // namespace tp
