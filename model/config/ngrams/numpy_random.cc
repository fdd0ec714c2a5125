#include "model/config/ngrams/numpy_random.h"

#include <array>
#include <bit>
#include <cassert>

namespace tp {
namespace {

__extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using): `using` cannot be extended

constexpr std::size_t kPool = 4;  // words of a SeedSequence

// Hashes words with a constant that changes at each word.
class WordHash {
 public:
  WordHash(std::uint32_t constant, std::uint32_t factor) : constant_(constant), factor_(factor) {}

  std::uint32_t operator()(std::uint32_t word) {
    word ^= constant_;
    constant_ *= factor_;
    word *= constant_;
    return word ^ (word >> 16);
  }

 private:
  std::uint32_t constant_;
  std::uint32_t factor_;
};

std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t mixed = 0xCA01F9DDU * x - 0x4973F715U * y;
  return mixed ^ (mixed >> 16);
}

// SeedSequence(seed).generate_state(4, uint64)
std::array<std::uint64_t, 4> state_of_seed(std::uint64_t seed) {
  WordHash in(0x43B0D7E5U, 0x931E8875U);
  std::array<std::uint32_t, kPool> pool{static_cast<std::uint32_t>(seed),
                                        static_cast<std::uint32_t>(seed >> 32)};
  for (std::uint32_t& word : pool) word = in(word);
  for (std::size_t from = 0; from < kPool; ++from) {
    for (std::size_t to = 0; to < kPool; ++to) {
      if (from != to) pool[to] = mix(pool[to], in(pool[from]));
    }
  }
  WordHash out(0x8B51F9DDU, 0x58F38DEDU);
  std::array<std::uint64_t, 4> state{};
  for (std::size_t i = 0; i < 2 * state.size(); ++i)
    state[i / 2] |= std::uint64_t{out(pool[i % kPool])} << (i % 2 * 32);
  return state;
}

Wide wide(std::uint64_t high, std::uint64_t low) { return Wide{high} << 64 | low; }

// PCG64: a linear congruential generator of 128 bits, whose halves are combined (XSL-RR).
class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed) {
    const std::array<std::uint64_t, 4> words = state_of_seed(seed);
    addend_ = wide(words[2], words[3]) << 1 | 1;
    advance();
    state_ += wide(words[0], words[1]);
    advance();
  }

  std::uint64_t operator()() {
    advance();
    const auto halves = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
    return std::rotr(halves, static_cast<int>(state_ >> 122));
  }

 private:
  void advance() { state_ = state_ * wide(2549297995355413924U, 4865540595714422341U) + addend_; }

  Wide state_ = 0;
  Wide addend_ = 0;
};

// The high half of a draw times the bound. Draws whose low half is too small would make some results more
// frequent than others.
std::uint64_t below(std::uint64_t bound, Pcg64& random) {
  const std::uint64_t least = -bound % bound;
  for (;;) {
    const Wide product = Wide{random()} * bound;
    if (static_cast<std::uint64_t>(product) >= least) return static_cast<std::uint64_t>(product >> 64);
  }
}

}  // namespace

std::vector<std::uint64_t> numpy_integers(std::uint64_t seed, std::uint64_t bound, std::size_t count) {
  assert(bound > std::uint64_t{1} << 32);
  Pcg64 random(seed);
  std::vector<std::uint64_t> numbers(count);
  for (std::uint64_t& number : numbers) number = below(bound, random);
  return numbers;
}

}  // namespace tp
