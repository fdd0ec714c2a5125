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

// The model of a tokenizer.model: encodes a normalized text (see SentencePieceNormalizer) like the
// SentencePiece library, with our BPE and Unigram. Control tokens that occur in the text count as text.
class SentencePieceModel {
 public:
  explicit SentencePieceModel(const SentencePieceFile& file);

  // Whether our code supports the file. Otherwise the library encodes, which normalizes texts itself and
  // takes far more time. The library is needed for models of words, and for BPE with unused tokens that are
  // results of merges, or with tokens that contain characters without tokens.
  static bool can_encode(const SentencePieceFile& file);

  // Appends the tokens of a text (well-formed UTF-8). The text must be normalized, unless the library encodes
  // it.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const;
  // The file's score and type of each token in the vocabulary.
  float score(TokenId id) const { return scores_[static_cast<std::size_t>(id)]; }
  TokenType type(TokenId id) const { return types_[static_cast<std::size_t>(id)]; }

 private:
  // The library as an encoder.
  struct Library {
    std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor;
    Vocabulary tokens;

    void encode(std::string_view piece, std::vector<TokenId>& out) const;
    const Vocabulary& vocabulary() const { return tokens; }
  };
  using Encoder = std::variant<Bpe, Unigram, Library>;

  static Encoder encoder_of(const SentencePieceFile& file);

  Encoder encoder_;
  StringSet uncut_;  // user-defined tokens of BPE, found before merging; values are ids
  std::vector<float> scores_;
  std::vector<TokenType> types_;
};

}  // namespace tp
