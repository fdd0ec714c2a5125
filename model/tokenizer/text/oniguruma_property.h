#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tp {

// A set of characters: what stands in a character class of PCRE2, or all but that.
struct CharacterSet {
  std::string members;
  bool negated = false;
};

// Whether PCRE2 knows a script of this name.
using ScriptTest = std::function<bool(std::string_view)>;

// [:name:]. Nothing for a name that is none.
std::optional<CharacterSet> posix_class(std::string_view name);

// \p{name}, by the rules of Oniguruma: case, spaces, '-' and '_' do not count, categories may have their long
// names, and a script is that of `Script`, where PCRE2 takes `Script_Extensions`.
CharacterSet character_property(std::string_view name, const ScriptTest& is_script);

}  // namespace tp
