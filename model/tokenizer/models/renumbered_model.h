#pragma once

#include "model/tokenizer/models/sentencepiece_model.h"
#include "model/tokenizer/text/vocabulary.h"
#include "tp/token_id.h"

#include <string_view>
#include <utility>
#include <vector>

namespace tp {

// A SentencePiece model whose pieces have ids of a different vocabulary.
class RenumberedModel {
 public:
  // Pieces outside `vocabulary` become `unknown`, which must be in it.
  RenumberedModel(SentencePieceModel pieces, Vocabulary vocabulary, TokenId unknown)
      : pieces_(std::move(pieces)), vocabulary_(std::move(vocabulary)) {
    const Vocabulary& own = pieces_.vocabulary();
    for (std::size_t id = 0; id < own.size(); ++id) {
      const auto text = own.find_text(static_cast<TokenId>(id));
      ids_.push_back((text ? vocabulary_.find(*text) : std::nullopt).value_or(unknown));
    }
  }

  void encode(std::string_view piece, std::vector<TokenId>& out) const {
    const std::size_t begin = out.size();
    pieces_.encode(piece, out);
    for (std::size_t i = begin; i < out.size(); ++i) out[i] = ids_[static_cast<std::size_t>(out[i])];
  }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  SentencePieceModel pieces_;
  Vocabulary vocabulary_;
  std::vector<TokenId> ids_;  // [pieces]
};

}  // namespace tp
