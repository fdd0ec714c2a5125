#include "model/config/ngrams/ngram_hash.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

namespace tp {
namespace {

constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15;

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

void NgramHash::rows(std::span<const TokenId> window, std::span<std::uint64_t> rows) const {
  assert(window.size() == multipliers.size() && rows.size() == heads());
  std::uint64_t hash = static_cast<std::uint64_t>(window.front()) * multipliers.front();
  bool is_hidden = false;
  for (std::size_t back = 1; back < window.size(); ++back) {
    is_hidden = is_hidden || window[back] == kNoToken || window[back] == boundary;
    hash ^= static_cast<std::uint64_t>(is_hidden ? boundary : window[back]) * multipliers[back];
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
  constexpr std::uint64_t kPerTable = 10007;
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::uint64_t half = std::max<std::uint64_t>(1, kMax / std::max<std::size_t>(1, vocab_size) / 2);
  std::vector<std::uint64_t> multipliers;
  for (std::size_t i = 0; i < count; ++i)
    multipliers.push_back(2 * (splitmix64(seed + kPerTable * table + kGamma * (i + 1)) % half) + 1);
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
