// The types of a checkpoint as text, for comparisons.
#pragma once

#include "model/weights/source/type_use.h"

#include <string>
#include <vector>

namespace tp::test {

// "Q4_K as bf16, F32 as f32": all types that can be read.
inline std::string listed_types(const std::vector<TypeUse>& uses) {
  std::string list;
  for (const TypeUse& use : uses) {
    if (!use.held_as) continue;
    if (!list.empty()) list += ", ";
    list += use.type + " as " + std::string(name_of(*use.held_as));
  }
  return list;
}

}  // namespace tp::test
