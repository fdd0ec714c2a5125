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

// A unigram language model. Among all segmentations of a piece into tokens, it chooses the one with the
// greatest sum of scores (log-probabilities).
//
// A character that is not a token counts as unknown, with a score of ten less than the lowest score.
// Consecutive unknown characters become the tokens <0xNN> of their bytes (with byte_fallback), else one
// unknown token, else nothing.
class Unigram {
 public:
  struct Options {
    std::optional<TokenId> unknown;
    bool byte_fallback = false;
    std::optional<double> lowest_score{};  // base of the unknown score; by default the lowest of `scores`
    bool single_precision = false;         // round sums to float, like SentencePiece
  };

  // The score of a token that never occurs in texts, such as a control token.
  static constexpr double kNotInTexts = -std::numeric_limits<double>::infinity();

  // `scores`: [vocabulary.size()]. `vocabulary` must contain `options.unknown`.
  Unigram(Vocabulary vocabulary, std::vector<double> scores, const Options& options);

  // Appends the tokens of a piece of text (well-formed UTF-8, less than 4 GiB). The time is proportional to
  // the length of the piece times the length of the longest token.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  // The best segmentation of the text up to a place, given by its last token.
  struct Best {
    double score = 0.0;
    std::uint32_t begin = kNoBegin;  // begin of the last token
    TokenId id = kNoToken;           // kNoToken: an unknown character
  };
  static constexpr std::uint32_t kNoBegin = static_cast<std::uint32_t>(-1);
  static constexpr TokenId kNoToken = -1;

  // A part of the text that begins at a place where all segmentations meet, and the best segmentations up to
  // its places.
  struct Section {
    std::size_t begin = 0;
    std::vector<Best> best{1};  // for the places from `begin` to the farthest end of a token

    std::size_t reach() const { return begin + best.size() - 1; }
    Best& at(std::size_t place) { return best[place - begin]; }
    const Best& at(std::size_t place) const { return best[place - begin]; }
  };

  // Adds the tokens that begin at `place`. Returns the length of the character at `place`.
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
