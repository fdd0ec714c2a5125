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

// Byte-pair encoding. A word starts as one token per character. Then the adjacent pair with the lowest rank
// is merged (the leftmost among equals), until no pair has a rank.
//
// A character outside the vocabulary becomes the tokens <0xNN> of its bytes (with byte_fallback), else the
// unknown token, else nothing.
class Bpe {
 public:
  // A pair of tokens that merges into one token. Merges of equal rank run from left to right.
  struct Merge {
    TokenId left;
    TokenId right;
    TokenId result;
    MergeTable::Rank rank;
  };

  struct Options {
    std::optional<TokenId> unknown;  // stands for characters without a token
    bool fuse_unknown = false;       // one unknown token for consecutive unknown characters
    bool byte_fallback = false;      // characters outside the vocabulary become <0xNN> tokens
    bool ignore_merges = false;      // a piece that is itself a token is not merged
  };

  // `vocabulary` must contain all ids in `merges` and `options`.
  Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, const Options& options);

  // Appends the tokens of a piece of text (well-formed UTF-8, less than 2 GiB).
  // O(n log n) in the length of the piece.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Ordered by rank.
  std::vector<Merge> merges() const;
  const Options& options() const { return options_; }

 private:
  struct Symbol {
    TokenId id;
    std::int32_t previous;
    std::int32_t next;        // -1: no next symbol
    MergeTable::Merge merge;  // merge with the next symbol
  };

  void index_tokens();
  void find_cuts(const std::vector<Merge>& merges);
  // Whether a token's text may end in the text of an unknown or byte token, which stands for a different
  // text.
  bool may_end_in_stand_in(std::string_view token) const;

  std::optional<TokenId> token_of_character(char32_t code_point) const;
  // Whether the texts before and after the word mark at `place` can be encoded separately.
  bool may_cut(std::string_view text, std::size_t place) const;

  void encode_word(std::string_view word, std::vector<TokenId>& out) const;
  std::vector<Symbol> symbols_of(std::string_view word) const;
  void merge(std::vector<Symbol>& symbols) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  Options options_;
  ByteFallback byte_fallback_;
  std::array<std::optional<TokenId>, 128> ascii_;
  std::unordered_map<char32_t, TokenId> characters_;  // non-ASCII characters

  // Text without a pre-tokenizer (Llama 2) arrives as one piece. If no merge joins a character with a
  // following word mark (U+2581), the two sides do not influence each other. Then cutting there changes no
  // tokens, and words, unlike whole texts, can be cached.
  bool cuts_at_marks_ = false;
  std::vector<char32_t> joins_mark_;  // sorted: characters that a merge joins with a following mark

  std::unique_ptr<WordCache> cache_ = std::make_unique<WordCache>();
};

}  // namespace tp
