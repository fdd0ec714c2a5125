#include "model/tokenizer/text/oniguruma_property.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

using Entry = std::pair<std::string_view, std::string_view>;

constexpr std::array kPosix = {
    Entry{"alnum", "\\p{Alphabetic}\\p{Nd}"},
    Entry{"alpha", "\\p{Alphabetic}"},
    Entry{"ascii", "\\x00-\\x7F"},
    Entry{"blank", "\\p{Zs}\\t"},
    Entry{"cntrl", "\\p{Cc}"},
    Entry{"digit", "\\p{Nd}"},
    Entry{"lower", "\\p{Lowercase}"},
    Entry{"punct", "\\p{P}"},
    Entry{"space", "\\p{White_Space}"},
    Entry{"upper", "\\p{Uppercase}"},
    Entry{"word", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"},
    Entry{"xdigit", "0-9a-fA-F"},
};

// Classes that are easier to describe by the characters they exclude.
constexpr std::array kInvertedPosix = {
    Entry{"graph", "\\p{White_Space}\\p{Cc}\\p{Cn}\\p{Cs}"},
    Entry{"print", "\\p{Cc}\\p{Cn}\\p{Cs}\\x{2028}\\x{2029}"},
};

constexpr std::array kCategories = {
    Entry{"other", "C"},
    Entry{"control", "Cc"},
    Entry{"format", "Cf"},
    Entry{"unassigned", "Cn"},
    Entry{"privateuse", "Co"},
    Entry{"surrogate", "Cs"},
    Entry{"letter", "L"},
    Entry{"casedletter", "L&"},
    Entry{"lc", "L&"},
    Entry{"lowercaseletter", "Ll"},
    Entry{"modifierletter", "Lm"},
    Entry{"otherletter", "Lo"},
    Entry{"titlecaseletter", "Lt"},
    Entry{"uppercaseletter", "Lu"},
    Entry{"mark", "M"},
    Entry{"combiningmark", "M"},
    Entry{"spacingmark", "Mc"},
    Entry{"enclosingmark", "Me"},
    Entry{"nonspacingmark", "Mn"},
    Entry{"number", "N"},
    Entry{"decimalnumber", "Nd"},
    Entry{"letternumber", "Nl"},
    Entry{"othernumber", "No"},
    Entry{"punctuation", "P"},
    Entry{"connectorpunctuation", "Pc"},
    Entry{"dashpunctuation", "Pd"},
    Entry{"closepunctuation", "Pe"},
    Entry{"finalpunctuation", "Pf"},
    Entry{"initialpunctuation", "Pi"},
    Entry{"otherpunctuation", "Po"},
    Entry{"openpunctuation", "Ps"},
    Entry{"symbol", "S"},
    Entry{"currencysymbol", "Sc"},
    Entry{"modifiersymbol", "Sk"},
    Entry{"mathsymbol", "Sm"},
    Entry{"othersymbol", "So"},
    Entry{"separator", "Z"},
    Entry{"lineseparator", "Zl"},
    Entry{"paragraphseparator", "Zp"},
    Entry{"spaceseparator", "Zs"},
};

template <std::size_t size>
std::optional<std::string_view> find(const std::array<Entry, size>& entries, std::string_view name) {
  const auto entry = std::ranges::find(entries, name, &Entry::first);
  if (entry == entries.end()) return std::nullopt;
  return entry->second;
}

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_')
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

}  // namespace

std::optional<CharacterSet> posix_class(std::string_view name) {
  if (const auto members = find(kPosix, name)) return CharacterSet{std::string(*members), false};
  if (const auto members = find(kInvertedPosix, name)) return CharacterSet{std::string(*members), true};
  return std::nullopt;
}

CharacterSet character_property(std::string_view name, const ScriptTest& is_script) {
  const std::string plain = plain_name(name);
  if (std::optional<CharacterSet> set = posix_class(plain)) return *set;
  if (const auto category = find(kCategories, plain)) return {fmt::format("\\p{{{}}}", *category), false};
  return {fmt::format("\\p{{{}{}}}", is_script(name) ? "sc:" : "", name), false};
}

}  // namespace tp
