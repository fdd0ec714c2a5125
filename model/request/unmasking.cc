#include "tp/unmasking.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace tp {
namespace {

template <class T, std::size_t kCount>
using Names = std::array<std::pair<T, std::string_view>, kCount>;

// In the enumerators' order.
constexpr Names<UnmaskRule, 5> kUnmaskRules = {{
    {UnmaskRule::low_confidence, "low-confidence"},
    {UnmaskRule::margin, "margin"},
    {UnmaskRule::entropy, "entropy"},
    {UnmaskRule::threshold, "threshold"},
    {UnmaskRule::sequential, "sequential"},
}};
constexpr Names<UnmaskCache, 3> kUnmaskCaches = {{
    {UnmaskCache::exact, "exact"},
    {UnmaskCache::prefix, "prefix"},
    {UnmaskCache::dual, "dual"},
}};

template <class T, std::size_t kCount>
std::optional<T> find_in(const Names<T, kCount>& names, std::string_view name) {
  const auto* const found = std::ranges::find(names, name, &std::pair<T, std::string_view>::second);
  if (found == names.end()) return std::nullopt;
  return found->first;
}

template <class T, std::size_t kCount>
std::vector<std::string> all_of(const Names<T, kCount>& names) {
  std::vector<std::string> all;
  for (const auto& [value, name] : names) all.emplace_back(name);
  return all;
}

}  // namespace

std::string_view name_of(UnmaskRule rule) { return kUnmaskRules.at(static_cast<std::size_t>(rule)).second; }
std::optional<UnmaskRule> find_unmask_rule(std::string_view name) { return find_in(kUnmaskRules, name); }
std::vector<std::string> unmask_rules() { return all_of(kUnmaskRules); }

std::string_view name_of(UnmaskCache cache) {
  return kUnmaskCaches.at(static_cast<std::size_t>(cache)).second;
}
std::optional<UnmaskCache> find_unmask_cache(std::string_view name) { return find_in(kUnmaskCaches, name); }
std::vector<std::string> unmask_caches() { return all_of(kUnmaskCaches); }

}  // namespace tp
