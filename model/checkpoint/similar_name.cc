#include "model/checkpoint/similar_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace tp {
namespace {

// The least number of characters to insert, remove or replace to make `b` of `a`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() +
                               1);  // row[j]: the distance of a's first i characters to b's first j
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
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
  constexpr std::size_t longest = 512;  // no model's name is longer, and the distance takes quadratic time
  if (name.size() > longest) return {};
  std::size_t least = name.size() / 3;
  std::string_view nearest;
  for (const std::string& candidate : names) {
    if (differs_by_prefix(name, candidate)) return candidate;
    const std::size_t length_difference =
        std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size());
    if (length_difference >= least) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance >= least) continue;
    least = distance;
    nearest = candidate;
  }
  return std::string(nearest);
}

}  // namespace tp
