#include "model/files/similar_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace tp {
namespace {

// The fewest insertions, removals, replacements and swaps of neighbours that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() +
                               1);  // row[j]: distance of the first i characters of a to the first j of b
  std::iota(row.begin(), row.end(), std::size_t{0});
  std::vector<std::size_t> above;        // for i - 1
  std::vector<std::size_t> above_twice;  // for i - 2
  for (std::size_t i = 0; i < a.size(); ++i) {
    above_twice = std::exchange(above, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = above[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({replaced, row[j] + 1, above[j + 1] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], above_twice[j - 1] + 1);
    }
  }
  return row.back();
}

bool differs_by_prefix(std::string_view a, std::string_view b) {
  const auto [shorter, longer] = std::minmax(a, b, [](auto x, auto y) { return x.size() < y.size(); });
  return !shorter.empty() && longer.ends_with(shorter) && longer.size() > shorter.size() &&
         longer[longer.size() - shorter.size() - 1] == '.';
}

}  // namespace

std::string similar_name(std::string_view name, std::span<const std::string> names) {
  constexpr std::size_t kLongest = 512;  // no model's name is longer, and edit_distance takes quadratic time
  if (name.size() > kLongest) return {};
  // One edit is allowed even if it is a third of a short name or more, but not for names of one or two
  // characters.
  std::size_t min = name.size() < 3 ? 0 : std::max<std::size_t>(2, name.size() / 3);
  std::string_view nearest;
  for (const std::string& candidate : names) {
    if (differs_by_prefix(name, candidate)) return candidate;
    const std::size_t length_difference =
        std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size());
    if (length_difference >= min) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance >= min) continue;
    min = distance;
    nearest = candidate;
  }
  return std::string(nearest);
}

}  // namespace tp
