#pragma once

#include "model/tokenizer/byte_fallback.h"
#include "model/tokenizer/string_set.h"
#include "model/tokenizer/vocabulary.h"
#include "tp/token_id.h"

#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

// A unigram language model: of all ways to write a piece as tokens, the one whose scores (logarithms of
// probabilities) have the greatest sum.
//
// A character that is no token by itself may also be unknown, at ten less than the lowest score. Unknown
// characters in a row become their bytes' tokens <0xNN> (with byte_fallback), else one unknown token, else
// nothing.
class Unigram {
 public:
  struct Options {
    std::optional<TokenId> unknown;
    bool byte_fallback = false;
    std::optional<double> lowest_score{};  // from which the unknown score is computed; else that of `scores`
    bool single_precision = false;         // sums are rounded to float, as SentencePiece does it
  };

  // The score of a token that no text becomes, such as a control token.
  static constexpr double kNotInTexts = -std::numeric_limits<double>::infinity();

  // `scores`: by id, [vocabulary.size()]. `options.unknown` has a token in `vocabulary`.
  Unigram(Vocabulary vocabulary, std::vector<double> scores, const Options& options);

  // Appends the tokens of a piece of text (well-formed UTF-8). Takes time in the length of the piece times
  // that of the longest token.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  // The best way to write the text up to some place, by its last token.
  struct Best {
    double score = 0.0;
    std::size_t begin = kNoBegin;  // of the last token
    TokenId id = kNoToken;         // kNoToken: an unknown character
  };
  static constexpr std::size_t kNoBegin = static_cast<std::size_t>(-1);
  static constexpr TokenId kNoToken = -1;

  std::vector<Best> best_ways(std::string_view piece) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  Options options_;
  StringSet tokens_;  // values are ids
  double unknown_score_;
  ByteFallback byte_fallback_;
};

}  // namespace tp
