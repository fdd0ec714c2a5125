#pragma once

#include "model/tokenizer/text/oniguruma_property.h"

#include <string>
#include <string_view>

namespace tp {

// Rewrites an Oniguruma pattern (its own or Ruby's syntax, UTF-8) so that PCRE2 (UTF, UCP, multi-line,
// newline = LF) matches the same texts. The differences:
//   \s \S    Oniguruma: White_Space. PCRE2 adds U+180E.
//   \w \W    Oniguruma: Alphabetic, M, Nd, Pc, and, outside classes, the superscripts and fractions of
//            Latin-1. PCRE2 10.42: L, N and '_'. \b and \B follow.
//   \h \H    Oniguruma: a hexadecimal digit. PCRE2: horizontal space.
//   \O       only Oniguruma: any character.
//   \uHHHH   only Oniguruma.
//   \v       Oniguruma: U+000B. PCRE2: vertical space.
//   \p{Han}  Oniguruma: the script of the character. PCRE2: its script extensions.
//   \p{Letter}, \p{Alnum}, [:alpha:]   different names, or different characters.
//   [a[b]], [a&&b]   only Oniguruma: unions and intersections of classes.
//   X{n,m}+, X{n}?   Oniguruma: a second quantifier. PCRE2: possessive, lazy.
//   X{,m}    only Oniguruma.
//   (?i)     Oniguruma: a group up to the end of the enclosing group, including its alternatives.
//   (?m)     Oniguruma: '.' matches a newline, which is (?s) in PCRE2.
// Two differences remain, because no known tokenizer needs them: Oniguruma's (?i:ss) matches a sharp s, and
// other letter pairs match their ligatures. \X uses the grapheme clusters of each library's Unicode version.
// Throws RegexError for a character class that does not end or has an unknown name.
std::string pcre2_pattern_from_oniguruma(std::string_view pattern, const ScriptTest& is_script);

}  // namespace tp
