#pragma once

#include <string>
#include <string_view>

namespace tp {

// Rewrites a pattern of Oniguruma (Ruby syntax, UTF-8) so that PCRE2 (UTF, UCP, multi-line, newline = LF)
// matches the same texts. What the two read differently:
//   \s \S    Oniguruma: White_Space. PCRE2 adds U+180E.
//   \w \W    Oniguruma: Alphabetic, M, Nd, Pc. PCRE2 10.42: L, N and '_'.
//   \h \H    Oniguruma: a hexadecimal digit. PCRE2: horizontal space.
//   \uHHHH   only Oniguruma.
//   (?m)     Oniguruma: '.' matches a newline, which is (?s) in PCRE2.
// Throws RegexError for what has no counterpart here: character classes inside classes, intersections (&&),
// \W and \H inside a class, and X{n,m}+, which repeats greedily in one dialect and is possessive in the
// other.
std::string pcre2_pattern_from_oniguruma(std::string_view pattern);

}  // namespace tp
