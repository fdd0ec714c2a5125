#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tp {

// A set of characters: the members of a PCRE2 character class, or their complement.
struct CharacterSet {
  std::string members;
  bool negated = false;
};

// Returns whether PCRE2 knows a script of this name.
using ScriptTest = std::function<bool(std::string_view)>;

// The class [:name:]; nullopt for an unknown name.
std::optional<CharacterSet> posix_class(std::string_view name);

// The property \p{name} by Oniguruma's rules: case, spaces, '-' and '_' do not count, and categories may have
// their long names. Scripts are those of `Script`, while PCRE2 uses `Script_Extensions`.
CharacterSet character_property(std::string_view name, const ScriptTest& is_script);

}  // namespace tp
