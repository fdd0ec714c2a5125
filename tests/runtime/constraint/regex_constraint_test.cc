// Compares regular expressions with PCRE2.
#include "tests/expect_contains.h"
#include "tests/runtime/constraint/text_matcher.h"
#include "tp/error.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace tp::constraint {
namespace {

class Pcre {
 public:
  explicit Pcre(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    const std::string whole = "\\A(?:" + pattern + ")\\z";
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(), PCRE2_UTF, &error,
                          &offset, nullptr);
    if (code_ == nullptr) throw std::runtime_error("PCRE2 does not compile " + pattern);
    match_ = pcre2_match_data_create_from_pattern(code_, nullptr);
  }
  ~Pcre() {
    pcre2_match_data_free(match_);
    pcre2_code_free(code_);
  }
  Pcre(const Pcre&) = delete;
  Pcre& operator=(const Pcre&) = delete;

  bool matches(const std::string& text) const {
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, match_, nullptr) >
           0;
  }

 private:
  pcre2_code* code_ = nullptr;
  pcre2_match_data* match_ = nullptr;
};

class RandomRegex {
 public:
  explicit RandomRegex(unsigned seed, bool looks_around = false)
      : random_(seed), looks_around_(looks_around) {}

  std::string pattern(int depth = 0) {
    const int kind = depth > 3 ? below(3) : below(looks_around_ ? 10 : 8);
    if (kind < 3) return atom();
    if (kind == 8) return pick({"\\b", "\\B", "^", "$", "(?!^)", "(?=$)"});
    if (kind == 9) return pick({"(?=", "(?!"}) + pattern(depth + 1) + ")";
    if (kind < 5) return pattern(depth + 1) + pattern(depth + 1);
    if (kind == 5) return "(?:" + pattern(depth + 1) + "|" + pattern(depth + 1) + ")";
    return "(?:" + pattern(depth + 1) + ")" + quantifier();
  }

  std::string text() {
    std::string text;
    for (int length = below(9); length > 0; --length) text += pick({"a", "b", "c", "1", "é", "☃", "-", " "});
    return text;
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  std::string pick(const std::vector<std::string>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }
  std::string atom() {
    return pick({"a",   "b",      "c",     "1", "é",     "☃",      ".",   "[a-c]", "[^a]",   "\\d",    "\\w",
                 "\\s", "[^\\d]", "[é-☃]", "",  "\\x61", "[\\w-]", "\\D", "\\.",   "(?i:B)", "[^\\D1]"});
  }
  std::string quantifier() { return pick({"*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "{0}"}); }

  std::mt19937 random_;
  bool looks_around_;
};

// PCRE2 and RegexConstraint agree that \w and \d match no letters beyond ASCII.
TEST(RegexConstraint, MatchesLikePcre2) {
  int matching = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    RandomRegex random(seed);
    const std::string pattern = random.pattern();
    std::unique_ptr<TextMatcher> matcher;
    try {
      matcher = std::make_unique<TextMatcher>(Constraint(Regex{pattern}));
    } catch (const RequestError& error) {
      FAIL() << pattern << ": " << error.what();
    }
    const Pcre pcre(pattern);
    for (int i = 0; i < 60; ++i) {
      const std::string text = random.text();
      const bool expected = pcre.matches(text);
      matching += expected ? 1 : 0;
      ASSERT_EQ(matcher->matches(text), expected) << "pattern " << pattern << ", text " << text;
    }
  }
  EXPECT_GT(matching, 2000);
}

// Uses expressions as the pattern of a JSON string, with a length.
TEST(RegexConstraint, LooksAheadAndCountsAsPcre2Does) {
  int matching = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    RandomRegex random(seed, true);
    const std::string pattern = random.pattern();
    const unsigned min = seed % 4;
    const unsigned max = min + seed % 5;
    const nlohmann::json schema = {
        {"pattern", "^(?:" + pattern + ")$"}, {"minLength", min}, {"maxLength", max}};
    std::unique_ptr<TextMatcher> matcher;  // null if no text matches
    try {
      matcher = std::make_unique<TextMatcher>(Constraint(JsonSchema{schema.dump()}));
    } catch (const RequestError& error) {
      ASSERT_NE(std::string(error.what()).find("allows no text at all"), std::string::npos)
          << pattern << ": " << error.what();
    }
    const Pcre pcre(pattern);
    for (int i = 0; i < 60; ++i) {
      const std::string text = random.text();
      const auto length = static_cast<unsigned>(
          std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
      const bool expected = min <= length && length <= max && pcre.matches(text);
      matching += expected ? 1 : 0;
      ASSERT_EQ(matcher && matcher->matches("\"" + text + "\""), expected)
          << "pattern " << pattern << ", text " << text << ", length " << min << " to " << max;
    }
  }
  EXPECT_GT(matching, 500);
}

TEST(RegexConstraint, TakesFlagsAndOpenQuantifiers) {
  const std::vector<std::tuple<const char*, const char*, bool>> cases = {
      {"(?i)straße", "STRAßE", true}, {"(?i)[a-c]x", "Bx", true}, {"(?i)[^a]", "A", false},
      {"a(?i:b)c", "aBc", true},      {"a(?i:b)c", "aBC", false}, {"(a(?i)b)c", "aBc", true},
      {"(a(?i)b)c", "aBC", false},    {"(?s).", "\n", true},      {".", "\n", false},
      {"(?i-s:a)", "A", true},        {"a{,3}", "aaa", true},     {"a{,3}", "aaaa", false},
      {"a{,}", "a{,}", true},         {"a{,b}", "a{,b}", true},   {"[\\s\\S]", "\u00A0", true},
  };
  for (const auto& [pattern, text, matches] : cases)
    EXPECT_EQ(TextMatcher(Constraint(Regex{pattern})).matches(text), matches) << pattern << ", " << text;
}

// ECMA-262 counts U+00A0 as white space, and not U+0085. Other dialects differ.
TEST(RegexConstraint, AllowsOnlyTheWhiteSpaceOfAllDialects) {
  const std::string no_break_space = "\u00A0";
  const std::string next_line = "\u0085";
  for (const char* pattern : {"\\s", "\\S", "[^\\s]", "[^\\S]", "(?!\\s)(?s:.)", "(?!\\S)(?s:.)",
                              "(?![^\\s])(?s:.)", "(?!(?!\\s))(?s:.)", "(?!(?=\\s))(?s:.)"}) {
    TextMatcher matcher(Constraint(Regex{pattern}));
    EXPECT_FALSE(matcher.matches(no_break_space)) << pattern;
    EXPECT_FALSE(matcher.matches(next_line)) << pattern;
    EXPECT_NE(matcher.matches(" "), matcher.matches("a")) << pattern;
  }
}

TEST(RegexConstraint, FindsThatNoTextCanFollow) {
  TextMatcher matcher(Constraint(Regex{"[a-z]{3}(?:-[0-9]{2,4})?"}));
  EXPECT_TRUE(matcher.begins("ab"));
  EXPECT_TRUE(matcher.begins("abc-1"));
  EXPECT_FALSE(matcher.begins("abcd"));
  EXPECT_FALSE(matcher.begins("abc-12345"));
  EXPECT_TRUE(matcher.matches("abc-1234"));
  EXPECT_FALSE(matcher.matches("abc-1"));
}

TEST(RegexConstraint, CountsWithoutUnrolling) {
  TextMatcher matcher(Constraint(Regex{"(?:a{300}b?){300}"}));
  EXPECT_LT(matcher.machine().automaton().positions.size(), 30U);
  EXPECT_TRUE(matcher.matches(std::string(90000, 'a')));
  EXPECT_FALSE(matcher.matches(std::string(89999, 'a')));
  TextMatcher empty(Constraint(Regex{"(?:a?b?){2,100000}"}));
  EXPECT_TRUE(empty.matches(""));
  EXPECT_TRUE(empty.matches("abab"));
}

TEST(RegexConstraint, TakesAnchorsAtItsEnds) {
  for (const char* pattern : {"^ab$", "\\Aab\\z", "(^ab$)", "^(ab|cd)$", "^ab|cd$", "(?:^a|a)b"})
    EXPECT_TRUE(TextMatcher(Constraint(Regex{pattern})).matches("ab")) << pattern;
}

TEST(RegexConstraint, RejectsUnsupportedSyntax) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"(a", "the regular expression: expected `)`, found its end at offset 2; correct it"},
      {"a)", "expected the expression's end, found `)` at offset 1"},
      {"[a", "expected `]`, found its end at offset 2; close the class"},
      {"a{3,2}", "expected a quantifier with bounds in order"},
      {"a{2000000}", "at most 1000000"},
      {"*a", "expected something to repeat, found `*` at offset 0; escape the quantifier"},
      {"(?>a)b", "a group that is not `(`, `(?:`, `(?<name>`, `(?=`, `(?!`, `(?i)` or `(?i:` at offset 2"},
      {"(?m)a", "is not supported"},
      {"(?<!a)b", "is not supported"},
      {"(a)\\1", "a back reference at offset 3 is not supported"},
      {"\\p{L}", "a property of characters (\\p) at offset 0 is not supported"},
      {"a*+", "a possessive quantifier"},
      {"(?=a)*b", "a repeated anchor"},
      {"[[:alpha:]]", "a POSIX class"},
      {"\xFF", "the regular expression is not UTF-8"},
      {std::string(300, '('), "at most 200 nested groups"},
  };
  for (const auto& [pattern, text] : cases) EXPECT_CONTAINS(error_of(Regex{pattern}), text) << pattern;
  EXPECT_THROW(TextMatcher(Constraint(Regex{"a[]b"})), RequestError);
}

}  // namespace
}  // namespace tp::constraint
