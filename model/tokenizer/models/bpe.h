#pragma once

#include "model/tokenizer/models/byte_fallback.h"
#include "model/tokenizer/models/merge_table.h"
#include "model/tokenizer/models/word_cache.h"
#include "model/tokenizer/text/vocabulary.h"
#include "tp/token_id.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tp {

// Byte-pair encoding: a word begins as one token for each character, and the neighbouring pair of the lowest
// rank is merged, the leftmost first, until no pair has a rank.
//
// A character outside of the vocabulary becomes its bytes' tokens <0xNN> (with byte_fallback), else the
// unknown token, else nothing.
class Bpe {
 public:
  // A pair of tokens that becomes one. Merges of equal rank are taken from left to right.
  struct Merge {
    TokenId left;
    TokenId right;
    TokenId result;
    MergeTable::Rank rank;
  };

  struct Options {
    std::optional<TokenId> unknown;  // stands for characters that have no other token
    bool fuse_unknown = false;       // one unknown token for several characters in a row
    bool byte_fallback = false;      // characters outside of the vocabulary become <0xNN> tokens
    bool ignore_merges = false;      // a piece that is a token is not merged
  };

  // All ids in `merges` and `options` have a token in `vocabulary`.
  Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, const Options& options);

  // Appends the tokens of a piece of text (well-formed UTF-8, less than 2 GiB).
  // O(n log n) in the length of the piece.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // In the order of their ranks.
  std::vector<Merge> merges() const;
  const Options& options() const { return options_; }

 private:
  struct Symbol {
    TokenId id;
    std::int32_t previous;
    std::int32_t next;        // -1: none
    MergeTable::Merge merge;  // of the pair with the next symbol
  };

  void index_tokens();
  void find_cuts(const std::vector<Merge>& merges);
  // Whether the text of a token may end in that of an unknown or a byte token, which is not the text it
  // stands for.
  bool may_end_in_stand_in(std::string_view token) const;

  std::optional<TokenId> token_of_character(char32_t code_point) const;
  // Whether the model may be run on the text before and after `place`, where a word mark is, apart.
  bool may_cut(std::string_view text, std::size_t place) const;

  void encode_word(std::string_view word, std::vector<TokenId>& out) const;
  std::vector<Symbol> symbols_of(std::string_view word) const;
  void merge(std::vector<Symbol>& symbols) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  Options options_;
  ByteFallback byte_fallback_;
  std::array<std::optional<TokenId>, 128> ascii_;
  std::unordered_map<char32_t, TokenId> characters_;  // beyond ASCII

  // Text without pre-tokenizer (Llama 2) comes as one piece. Where no merge joins a character with a
  // following word mark (U+2581), the two sides do not influence each other: cutting there changes nothing,
  // and words, unlike whole texts, can be remembered.
  bool cuts_at_marks_ = false;
  std::vector<char32_t> joins_mark_;  // sorted: the characters that some merge joins with a following mark

  std::unique_ptr<WordCache> cache_ = std::make_unique<WordCache>();
};

}  // namespace tp
