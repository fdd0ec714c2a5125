#include "model/tokenizer/text/regex.h"

#include "tp/error.h"

#include <chrono>

#include <gtest/gtest.h>

namespace tp {
namespace {

std::vector<std::string> found(const Regex& regex, const std::string& text) {
  std::vector<std::string> parts;
  for (const Span& span : regex.matches(text))
    parts.push_back(text.substr(span.begin, span.end - span.begin));
  return parts;
}

std::vector<std::string> found(std::string_view pattern, const std::string& text) {
  return found(Regex::from_oniguruma(pattern), text);
}

using Parts = std::vector<std::string>;

TEST(Regex, FindsMatchesFromLeftToRight) { EXPECT_EQ(found("a+|b", "aab-ba"), (Parts{"aa", "b", "b", "a"})); }

TEST(Regex, TakesUnicodePropertiesForNonAsciiText) {
  EXPECT_EQ(found(R"(\p{L}+)", "héllo wörld 中"), (Parts{"héllo", "wörld", "中"}));
  EXPECT_EQ(found(R"(\d+)", "٣4"), (Parts{"٣4"}));
  EXPECT_EQ(found(R"(\p{Han}+)", "a中文b"), (Parts{"中文"}));
}

TEST(Regex, FoldsCaseAsOnigurumaDoes) {
  EXPECT_EQ(found("(?i:'s|'re)", "'S'RE's"), (Parts{"'S", "'RE", "'s"}));
  EXPECT_EQ(found("(?i:'s)", "'\u017F"), (Parts{"'\u017F"}));  // long s
}

TEST(Regex, ReadsWhiteSpaceAsThePropertyOfUnicode) {
  EXPECT_EQ(found(R"(\s)", "\u0085\u00A0\u2028\u3000\u180E\u200B"),
            (Parts{"\u0085", "\u00A0", "\u2028", "\u3000"}));
  EXPECT_EQ(found(R"([^\s]+)", "a\u180Eb c"), (Parts{"a\u180Eb", "c"}));
  EXPECT_EQ(found(R"(\S+)", "a\u180Eb c"), (Parts{"a\u180Eb", "c"}));
}

TEST(Regex, ReadsWordCharactersAsOniguruma) {
  EXPECT_EQ(found(R"([\w]+)", "e\u0301_2\u203Fx²"), (Parts{"e\u0301_2\u203Fx"}));
  EXPECT_EQ(found(R"(\w+)", "x²\u2074y"), (Parts{"x²", "y"})) << "Latin-1 counts as it does by itself";
  EXPECT_EQ(found(R"([^\w]+)", "e\u0301²!"), (Parts{"²!"}));
  EXPECT_EQ(found(R"(\W+)", "e\u0301²\u2074!"), (Parts{"\u2074!"}));
  EXPECT_EQ(found(R"([\w-]+)", "a-\u0301²"), (Parts{"a-\u0301"}));
}

TEST(Regex, ReadsHexadecimalDigitsAndCodePoints) {
  EXPECT_EQ(found(R"(\h+)", "xAf9 g"), (Parts{"Af9"}));
  EXPECT_EQ(found(R"([\h]+)", "xAf9 g"), (Parts{"Af9"}));
  EXPECT_EQ(found(R"(\H+)", "ax\ty1"), (Parts{"x\ty"}));
  EXPECT_EQ(found(R"(\u4e2d|[\u6587-\u6587])", "中文"), (Parts{"中", "文"}));
}

TEST(Regex, TreatsAnchorsAsLineAnchorsAndDotAsAnyButNewline) {
  EXPECT_EQ(found(R"(\s+$)", "a \nb  "), (Parts{" ", "  "}));
  EXPECT_EQ(found("^.", "a\nb"), (Parts{"a", "b"}));
  EXPECT_EQ(found(".+", "a\rb\nc"), (Parts{"a\rb", "c"}));
  EXPECT_EQ(found("(?m:.+)", "a\nb"), (Parts{"a\nb"}));
}

TEST(Regex, GivesEmptyMatchesExceptAfterAMatch) {
  EXPECT_EQ(Regex::from_oniguruma("(?<=a)(?=b)").matches("ab"), (std::vector<Span>{{1, 1}}));
  EXPECT_EQ(Regex::from_oniguruma("x*").matches("xxé"), (std::vector<Span>{{0, 2}, {4, 4}}));
}

TEST(Regex, TakesLiteralsAsTheyStand) {
  EXPECT_EQ(found(Regex::literal("a.b\\s"), "a.b\\s axb a.b"), (Parts{"a.b\\s"}));
}

TEST(Regex, ReplacesLiterally) {
  EXPECT_EQ(Regex::from_oniguruma("(b+)").replace("abbc-b", "$1\\1"), "a$1\\1c-$1\\1");
}

TEST(Regex, ReadsClassesInClasses) {
  EXPECT_EQ(found("[a-z&&[^aeiou]]+", "hello"), (Parts{"h", "ll"}));
  EXPECT_EQ(found("[^a-z&&[^aeiou]]+", "hello!"), (Parts{"e", "o!"}));
  EXPECT_EQ(found("[a[0-9]]+", "a1b2"), (Parts{"a1", "2"}));
  EXPECT_EQ(found("[a[^b]]+", "abc"), (Parts{"a", "c"}));
  EXPECT_EQ(found(R"([^\W_]+)", "a_b!"), (Parts{"a", "b"}));
  EXPECT_EQ(found(R"([\H]+)", "fog"), (Parts{"og"}));
}

TEST(Regex, RepeatsGroups) {
  EXPECT_EQ(found(R"(\p{N}{1,3}+)", "12345"), (Parts{"12345"}));
  EXPECT_EQ(found("(?:ab){2}+", "abababab"), (Parts{"abababab"}));
  EXPECT_EQ(found("a{2}?", "aa"), (Parts{"aa"}));
  EXPECT_EQ(found("xa{,2}", "xaaa"), (Parts{"xaa"}));
}

TEST(Regex, TakesScriptsWithoutTheirExtensions) {
  EXPECT_EQ(found(R"(\p{Han}+)", "中。文"), (Parts{"中", "文"}));
  EXPECT_EQ(found(R"(\p{Uppercase_Letter}\p{letter})", "Ab"), (Parts{"Ab"}));
}

TEST(Regex, AppliesOptionsToAllLaterAlternatives) {
  EXPECT_EQ(found("a(?i)b|c", "aBaCac"), (Parts{"aB", "aC", "ac"}));
}

TEST(Regex, AcceptsSimilarHarmlessPatterns) {
  EXPECT_EQ(found(R"([\[\]&[:digit:]]+)", "[&]1x"), (Parts{"[&]1"}));
  EXPECT_EQ(found(R"(\p{L}+|\x{31}+)", "ab11"), (Parts{"ab", "11"}));
  EXPECT_EQ(found(R"([^\s\p{L}]++|\p{L}?+)", "..a"), (Parts{"..", "a"}));
}

TEST(Regex, NamesThePlaceOfAnError) {
  for (const char* pattern : {"(", "[a", "a{2,1}", R"(\p{Nonsense})", "*", "(?<=a+)", R"(\)", "(?R", "\xFF"})
    EXPECT_THROW(Regex::from_oniguruma(pattern), RegexError) << pattern;
}

TEST(Regex, GivesUpOnAPatternThatExplodes) {
  const Regex regex = Regex::from_oniguruma("(a|aa)+$");
  EXPECT_THROW(regex.matches(std::string(200, 'a') + "b"), RequestError);
}

TEST(Regex, MatchesDeepRecursionOrGivesUp) {
  const Regex regex = Regex::from_oniguruma("(?:a|b(?=.))*c");
  EXPECT_NO_THROW(regex.matches("ab" + std::string(100'000, 'a') + "c"));
}

// Splits long lines of one character with the common families' patterns, which shows every kind of
// backtracking.
TEST(Regex, SplitsMegabyteLinesInLinearTime) {
  const std::vector<const char*> patterns = {
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"((?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
  const auto begin = std::chrono::steady_clock::now();
  for (const char* pattern : patterns) {
    const Regex regex = Regex::from_oniguruma(pattern);
    for (const char* unit : {"a", " ", "1", "\n", "!", "\u00A0", "中", "a ", " \n", "\u0301"}) {
      std::string line;
      while (line.size() < 1'000'000) line += unit;
      EXPECT_NO_THROW(regex.matches(line)) << pattern << " on '" << unit << "'";
    }
  }
  // 50 lines of 1 MB take about a second. A single quadratic one would take minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(Regex, ReadsPythonsExpressionsFromTheBeginningOfAText) {
  EXPECT_TRUE(Regex::from_python(R"((?P<a>\w+)-(?P=a))").begins("é1-é1!"));
  EXPECT_FALSE(Regex::from_python("b").begins("ab"));
  EXPECT_FALSE(Regex::from_python("^b").begins("a\nb"));
  EXPECT_TRUE(Regex::from_python("").begins(""));
  EXPECT_THROW(Regex::from_python("(?P<a"), RegexError);
  EXPECT_THROW(Regex::from_python("(a+)+[bc]").begins(std::string(60, 'a')), RegexError);
}

}  // namespace
}  // namespace tp
