#include "model/weights/source/type_use.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace tp {
void TypeUses::add(TypeUse use) {
  const auto same = std::find_if(uses_.begin(), uses_.end(), [&](const TypeUse& other) {
    return other.type == use.type && other.held_as == use.held_as;
  });
  if (same == uses_.end()) {
    uses_.push_back(std::move(use));
  } else {
    same->tensors += use.tensors;
    same->elements += use.elements;
  }
}

std::vector<TypeUse> TypeUses::sorted() const {
  std::vector<TypeUse> result = uses_;
  std::stable_sort(result.begin(), result.end(),
                   [](const TypeUse& a, const TypeUse& b) { return a.elements > b.elements; });
  return result;
}

std::string list_rounded(const std::vector<TypeUse>& uses) {
  std::vector<std::string> rounded;
  for (const TypeUse& use : uses) {
    if (use.held_as && !use.exactly)
      rounded.push_back(fmt::format("{} as {}", use.type, name_of(*use.held_as)));
  }
  return fmt::format("{}", fmt::join(rounded, ", "));
}

}  // namespace tp
