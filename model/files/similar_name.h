// Finds the most similar name, for "did you mean" in errors.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tp {

// The most similar of `names`: one that differs only by a prefix ("transformer.h.0.ln_1.weight" for
// "h.0.ln_1.weight"), else the one with the fewest edits. The number of edits must be less than a third of
// the length of `name`; a single edit is allowed if `name` has at least 3 characters. Swapping two neighbours
// is one edit. Empty if no name is similar.
std::string similar_name(std::string_view name, std::span<const std::string> names);

}  // namespace tp
