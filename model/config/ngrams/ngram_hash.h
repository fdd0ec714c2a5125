// Hashes of the last tokens of a sequence, which choose rows of a table.
#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// For each n from 2 to the number of multipliers, the last n tokens have the hash
//   h = (id of the token * multiplier 0) xor (id of the token before * multiplier 1) xor ...
// and choose a row for each of a few heads: h modulo the head's size, plus the head's offset. The heads of
// the shortest n-grams come first. Tokens before the sequence, and tokens before a boundary that cuts, are
// hidden. Each hidden token counts as the boundary.
//
// DeepSeek hashes folded ids: tokens that differ only in case, accents or white space have one id.
struct NgramHash {
  std::vector<std::uint64_t> multipliers{};  // [longest n-gram] so small that products have no overflow
  std::size_t heads_per_ngram = 0;
  std::vector<std::uint64_t> sizes{};    // [heads] primes
  std::vector<std::uint64_t> offsets{};  // [heads]
  TokenId boundary = 0;                  // the end of a text, or a token for padding
  bool boundary_cuts = true;             // the boundary hides the tokens before it
  std::size_t folded_size = 0;           // number of folded ids; 0: ids are not folded
  // The folded id of each token, below folded_size. Empty, for weights without a tokenizer: the id modulo
  // folded_size.
  std::vector<TokenId> folded{};

  std::size_t heads() const { return sizes.size(); }
  // The id that is hashed. Rows of a model without a token count as the boundary.
  TokenId folded_id(TokenId id) const;
  // Tokens before the current one that the hashes depend on.
  std::size_t context() const { return multipliers.size() - 1; }
  // Sum of the sizes: rows of the table without padding.
  std::uint64_t total() const;

  // window: [context() + 1] tokens, the current one first, then the ones before it; kNoToken before the
  // sequence. rows: [heads()].
  static constexpr TokenId kNoToken = -1;
  void rows(std::span<const TokenId> window, std::span<std::uint64_t> rows) const;

  bool operator==(const NgramHash&) const = default;
};

// splitmix64(x): the generator's output after the state x. Source: Vigna, 2015.
std::uint64_t splitmix64(std::uint64_t x);

// Qwen's multipliers: odd numbers that depend on `seed` and on the number of the table among all tables.
// Source: transformers, modeling_qwen4_exp.py.
std::vector<std::uint64_t> splitmix_multipliers(std::uint64_t seed, std::size_t table, std::size_t count,
                                                std::size_t vocab_size);

// DeepSeek's multipliers: odd numbers 2 * v + 1, where numpy draws v with a seed that depends on the layer.
// `vocab_size`: folded ids, less than 2^24. Source: transformers, modular_deepseek_v41.py.
std::vector<std::uint64_t> numpy_multipliers(std::size_t layer, std::size_t count, std::size_t vocab_size);

// `count` consecutive primes from `base` on, without the first `skipped` ones. `base` is at most 2^32.
std::vector<std::uint64_t> primes_from(std::uint64_t base, std::size_t skipped, std::size_t count);

// The sums of all numbers before each.
std::vector<std::uint64_t> offsets_of(std::span<const std::uint64_t> sizes);

}  // namespace tp
