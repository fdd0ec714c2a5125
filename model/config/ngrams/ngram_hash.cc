#include "model/config/ngrams/ngram_hash.h"

#include "model/config/ngrams/numpy_random.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

namespace tp {
namespace {

constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15;
constexpr std::uint64_t kSeedPerTable = 10007;

// With v below this bound, the product of 2 * v + 1 and an id fits into 63 bits.
std::uint64_t multiplier_bound(std::size_t vocab_size) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return std::max<std::uint64_t>(1, kMax / std::max<std::size_t>(1, vocab_size) / 2);
}

bool is_prime(std::uint64_t number) {
  if (number < 4) return number >= 2;
  if (number % 2 == 0) return false;
  for (std::uint64_t divisor = 3; divisor * divisor <= number; divisor += 2) {
    if (number % divisor == 0) return false;
  }
  return true;
}

}  // namespace

std::uint64_t NgramHash::total() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

TokenId NgramHash::folded_id(TokenId id) const {
  if (folded_size == 0) return id;
  if (folded.empty()) return static_cast<TokenId>(static_cast<std::size_t>(id) % folded_size);
  const auto index = static_cast<std::size_t>(id);
  return folded[index < folded.size() ? index : static_cast<std::size_t>(boundary)];
}

void NgramHash::rows(std::span<const TokenId> window, std::span<std::uint64_t> rows) const {
  assert(window.size() == multipliers.size() && rows.size() == heads());
  const auto product = [&](TokenId id, std::size_t back) {
    return static_cast<std::uint64_t>(folded_id(id)) * multipliers[back];
  };
  std::uint64_t hash = product(window.front(), 0);
  bool is_hidden = false;
  for (std::size_t back = 1; back < window.size(); ++back) {
    is_hidden = is_hidden || window[back] == kNoToken || (boundary_cuts && window[back] == boundary);
    hash ^= product(is_hidden ? boundary : window[back], back);
    for (std::size_t head = (back - 1) * heads_per_ngram; head < back * heads_per_ngram; ++head)
      rows[head] = hash % sizes[head] + offsets[head];
  }
}

std::uint64_t splitmix64(std::uint64_t x) {
  x += kGamma;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

std::vector<std::uint64_t> splitmix_multipliers(std::uint64_t seed, std::size_t table, std::size_t count,
                                                std::size_t vocab_size) {
  const std::uint64_t half = multiplier_bound(vocab_size);
  std::vector<std::uint64_t> multipliers;
  for (std::size_t i = 0; i < count; ++i)
    multipliers.push_back(2 * (splitmix64(seed + kSeedPerTable * table + kGamma * (i + 1)) % half) + 1);
  return multipliers;
}

std::vector<std::uint64_t> numpy_multipliers(std::size_t layer, std::size_t count, std::size_t vocab_size) {
  std::vector<std::uint64_t> multipliers =
      numpy_integers(kSeedPerTable * layer, multiplier_bound(vocab_size), count);
  for (std::uint64_t& multiplier : multipliers) multiplier = 2 * multiplier + 1;
  return multipliers;
}

std::vector<std::uint64_t> primes_from(std::uint64_t base, std::size_t skipped, std::size_t count) {
  std::vector<std::uint64_t> primes;
  for (std::uint64_t number = base; primes.size() < count; ++number) {
    if (!is_prime(number)) continue;
    if (skipped != 0)
      --skipped;
    else
      primes.push_back(number);
  }
  return primes;
}

std::vector<std::uint64_t> offsets_of(std::span<const std::uint64_t> sizes) {
  std::vector<std::uint64_t> offsets(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), std::uint64_t{0});
  return offsets;
}

}  // namespace tp
