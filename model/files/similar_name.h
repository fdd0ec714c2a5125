// "Did you mean": the name most like one that was not found.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tp {

// The most similar of `names`: one that differs by a prefix only ("transformer.h.0.ln_1.weight" for
// "h.0.ln_1.weight"), else the one with the fewest edited characters, as long as they are less than a third
// of `name` or only one (of a name of at least 3). Two neighbours that are swapped are one edit. Empty if no
// name is similar.
std::string similar_name(std::string_view name, std::span<const std::string> names);

}  // namespace tp
