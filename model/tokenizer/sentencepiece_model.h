#pragma once

#include "model/tokenizer/vocabulary.h"
#include "tp/token_id.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace tp {

// A tokenizer.model, which the SentencePiece library reads and applies, its normalization included: a piece
// is a whole text. Control tokens that are written out in the text are text.
class SentencePieceModel {
 public:
  // Throws CheckpointError.
  explicit SentencePieceModel(const std::filesystem::path& file);

  // Appends the tokens of a text (well-formed UTF-8).
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // What the model says of a token.
  float score(TokenId id) const;
  bool is_control(TokenId id) const;
  bool is_unknown(TokenId id) const;
  bool is_byte(TokenId id) const;
  bool is_unused(TokenId id) const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  // Whether a text begins as if a space were before it, which its decoding leaves out.
  bool adds_space_prefix() const;

 private:
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_;
  Vocabulary vocabulary_;
};

}  // namespace tp
