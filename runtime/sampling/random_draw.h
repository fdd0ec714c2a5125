// Counter-based random numbers.
//
// The noise of a token is a function of only (seed, sample, position, token id). So a text does not depend on
// the rest of the batch, the number of ranks, or the order and number of candidates.
#pragma once

#include "parallel/machine/hash.h"
#include "tp/token_id.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tp {

// Identifies a draw.
struct DrawKey {
  std::uint64_t seed = 0;      // seed of the request
  std::uint64_t sample = 0;    // index of the continuation among the request's n
  std::uint64_t position = 0;  // position of the token to choose, in its sequence
};

// The noise of one draw for every token.
//
// The generator is splitmix64 with a counter. Its state is an arbitrary 64-bit start plus a multiple of an
// odd constant, and its output is a bijective mixing of the state (Stafford's variant 13, in which each input
// bit flips each output bit with probability 1/2 within 2 %). The parts of the key are mixed into the start
// one after the other, so that neighbouring seeds, samples and positions have unrelated streams.
class RandomDraw {
 public:
  explicit RandomDraw(const DrawKey& key)
      : start_(mixed(mixed(mixed(key.seed + kStep) + key.sample + kStep) + key.position + kStep)) {}

  // 64 uniform bits for a token.
  std::uint64_t bits(TokenId id) const {
    return mixed(start_ + kStep * (std::uint64_t{static_cast<std::uint32_t>(id)} + 1));
  }

  // A value of the standard Gumbel distribution, -log(-log(u)), in (-3.7, 36.8). If g_i are such values, the
  // i with the greatest log_weight_i + g_i is a draw with probabilities proportional to the weights.
  static double gumbel(std::uint64_t bits) {
    // The bits give 1 - u rather than u, so that large values have the full precision of a double. 52 bits
    // plus one half are exact in a double, so neither 0 nor 1 can occur.
    const double complement = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
    return -std::log(-std::log1p(-complement));
  }

  // An upper bound of gumbel(bits) at a fraction of its cost. -log(u) >= 1 - u implies that the value is at
  // most -log(1 - u), and the leading zeros give 1 - u up to a factor of 2.
  static double gumbel_bound(std::uint64_t bits) { return (std::countl_zero(bits) + 1) * std::numbers::ln2; }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio, odd

  std::uint64_t start_;
};

}  // namespace tp
