#pragma once

#include "model/tokenizer/models/bpe.h"
#include "model/tokenizer/models/unigram.h"
#include "model/tokenizer/text/sentencepiece_file.h"
#include "model/tokenizer/text/string_set.h"
#include "model/tokenizer/text/vocabulary.h"
#include "tp/token_id.h"

#include <memory>
#include <string_view>
#include <variant>
#include <vector>

namespace tp {

// The model of a tokenizer.model: makes the tokens that the SentencePiece library makes of a normalized text
// (see SentencePieceNormalizer), with our BPE and Unigram. Control tokens that are written out in the text
// are text.
class SentencePieceModel {
 public:
  explicit SentencePieceModel(const SentencePieceFile& file);

  // Whether it can do what the file asks for. Otherwise the library has to, which takes texts as they are,
  // and far more time: models of words, and BPE with unused tokens that merges lead to, or tokens made of
  // characters that are none.
  static bool can_encode(const SentencePieceFile& file);

  // Appends the tokens of a text (well-formed UTF-8), normalized unless the library encodes it.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const;
  // What the file says of a token, one for each of the vocabulary.
  float score(TokenId id) const { return scores_[static_cast<std::size_t>(id)]; }
  TokenType type(TokenId id) const { return types_[static_cast<std::size_t>(id)]; }

 private:
  // The library itself.
  struct Library {
    std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor;
    Vocabulary tokens;

    void encode(std::string_view piece, std::vector<TokenId>& out) const;
    const Vocabulary& vocabulary() const { return tokens; }
  };
  using Encoder = std::variant<Bpe, Unigram, Library>;

  static Encoder encoder_of(const SentencePieceFile& file);

  Encoder encoder_;
  StringSet uncut_;  // user-defined tokens of BPE, found before anything is merged; values are ids
  std::vector<float> scores_;
  std::vector<TokenType> types_;
};

}  // namespace tp
