#pragma once

#include "model/tokenizer/models/byte_fallback.h"
#include "model/tokenizer/text/string_set.h"
#include "model/tokenizer/text/vocabulary.h"
#include "tp/token_id.h"

#include <cstdint>
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

  // Appends the tokens of a piece of text (well-formed UTF-8, less than 4 GiB). Takes time in the length of
  // the piece times that of the longest token.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  // The best way to write the text up to some place, by its last token.
  struct Best {
    double score = 0.0;
    std::uint32_t begin = kNoBegin;  // of the last token
    TokenId id = kNoToken;           // kNoToken: an unknown character
  };
  static constexpr std::uint32_t kNoBegin = static_cast<std::uint32_t>(-1);
  static constexpr TokenId kNoToken = -1;

  // A part of the text that begins where all ways to write the text meet, and the best ways to its places.
  struct Section {
    std::size_t begin = 0;
    std::vector<Best> best{1};  // of the places from `begin` on, as far as a token reaches

    std::size_t reach() const { return begin + best.size() - 1; }
    Best& at(std::size_t place) { return best[place - begin]; }
    const Best& at(std::size_t place) const { return best[place - begin]; }
  };

  // Offers the tokens at `place`. Returns the length of the character there.
  std::size_t go_on(std::string_view piece, std::size_t place, Section& section) const;
  // Appends the tokens of a section up to its reach.
  void append(std::string_view piece, const Section& section, std::vector<TokenId>& out) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  Options options_;
  StringSet tokens_;  // values are ids
  double unknown_score_;
  ByteFallback byte_fallback_;
};

}  // namespace tp
