#include "tp/unmasking.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace tp {
namespace {

constexpr std::array<std::pair<UnmaskRule, std::string_view>, 5> kUnmaskRules = {{
    {UnmaskRule::low_confidence, "low-confidence"},
    {UnmaskRule::margin, "margin"},
    {UnmaskRule::entropy, "entropy"},
    {UnmaskRule::threshold, "threshold"},
    {UnmaskRule::sequential, "sequential"},
}};

}  // namespace

std::string_view name_of(UnmaskRule rule) { return kUnmaskRules.at(static_cast<std::size_t>(rule)).second; }

std::optional<UnmaskRule> find_unmask_rule(std::string_view name) {
  const auto* const found =
      std::ranges::find(kUnmaskRules, name, &std::pair<UnmaskRule, std::string_view>::second);
  if (found == kUnmaskRules.end()) return std::nullopt;
  return found->first;
}

std::vector<std::string> unmask_rules() {
  std::vector<std::string> names;
  for (const auto& [rule, name] : kUnmaskRules) names.emplace_back(name);
  return names;
}

}  // namespace tp
