#include "runtime/text/stop_matcher.h"

#include "tests/reference/random.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Random;

struct Result {
  std::string text;
  bool matched = false;

  bool operator==(const Result&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Result& result) {
  return out << '"' << result.text << "\" matched: " << result.matched;
}

// Searches the whole text: after every character, it checks whether a stop text has just become complete.
Result naive(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

Result in_pieces(const std::vector<std::string>& pieces, const std::vector<std::string>& stops) {
  StopMatcher matcher(stops);
  Result result;
  for (const std::string& piece : pieces) result.text += matcher.push(piece);
  result.text += matcher.finish();
  result.matched = matcher.matched();
  return result;
}

TEST(StopMatcher, PassesTextWithoutStopTextsAtOnce) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("Once upon"), "Once upon");
  EXPECT_EQ(matcher.push(" a time"), " a time");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, EndsTheTextBeforeTheStopText) {
  StopMatcher matcher({"\n\n"});
  EXPECT_EQ(matcher.push("The end.\n\nNot this"), "The end.");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.push("nor this"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, HoldsBackOnlyPossibleStopTexts) {
  StopMatcher matcher({"STOP", "Stand"});
  EXPECT_EQ(matcher.push("a S"), "a ");
  EXPECT_EQ(matcher.push("ta"), "");
  EXPECT_EQ(matcher.push("r"), "Star");
  EXPECT_EQ(matcher.push("ST"), "");
  EXPECT_EQ(matcher.push("STO"), "ST");
  EXPECT_EQ(matcher.push("P!"), "");
  EXPECT_TRUE(matcher.matched());
}

TEST(StopMatcher, ReturnsHeldTextAtTheEnd) {
  StopMatcher matcher({"STOP"});
  EXPECT_EQ(matcher.push("x STO"), "x ");
  EXPECT_EQ(matcher.finish(), "STO");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, StopsAtTheFirstCompleteText) {
  // In one piece or in five, "bc" is complete before "abcd".
  EXPECT_EQ(in_pieces({"xabcd"}, {"abcd", "bc"}), (Result{"xa", true}));
  EXPECT_EQ(in_pieces({"x", "a", "b", "c", "d"}, {"abcd", "bc"}), (Result{"xa", true}));
  EXPECT_EQ(in_pieces({"xabc"}, {"bc", "abc"}), (Result{"x", true}));
}

// With an alphabet of two letters, matches, overlaps and near misses are frequent.
TEST(StopMatcher, EqualsANaiveSearchInAnyPieces) {
  Random random(1);
  const auto letters = [&](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text.push_back(random.coin() ? 'a' : 'b');
    return text;
  };
  int matches = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::string text = letters(random.integer(0, 30));
    std::vector<std::string> stops;
    for (std::size_t i = random.integer(0, 3); i > 0; --i) stops.push_back(letters(random.integer(1, 8)));
    const Result expected = naive(text, stops);
    matches += expected.matched ? 1 : 0;
    std::vector<std::string> pieces;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t size = std::min(random.integer(0, 5), text.size() - begin);
      pieces.push_back(text.substr(begin, size));
      begin += size;
    }
    ASSERT_EQ(in_pieces(pieces, stops), expected)
        << text << " with " << (stops.empty() ? "" : stops.front()) << " of " << stops.size();
  }
  // Matches and misses both occurred.
  EXPECT_GT(matches, 1000);
  EXPECT_LT(matches, 4500);
}

TEST(StopMatcher, NeverRetractsShownText) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text.push_back(static_cast<char>('a' + random.integer(0, 2)));
    StopMatcher matcher({"abcab", "cc"});
    const std::string whole = naive(text, {"abcab", "cc"}).text;
    std::string shown;
    for (const char letter : text) {
      shown += matcher.push(std::string(1, letter));
      ASSERT_TRUE(whole.starts_with(shown)) << text << " shown: " << shown;
    }
  }
}

TEST(StopMatcher, ReportsTheStopText) {
  StopMatcher matcher({"b", "abc", "c"});
  matcher.push("a");
  EXPECT_FALSE(matcher.matched());
  matcher.push("bc");
  ASSERT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.match(), "b");
  StopMatcher longest({"c", "abc"});
  longest.push("xabc");
  EXPECT_EQ(longest.match(), "abc");
}

TEST(StopMatcher, ShowsTheStopTextIfAsked) {
  StopMatcher matcher({"the end"}, true);
  EXPECT_EQ(matcher.push("Not yet th"), "Not yet ");
  EXPECT_EQ(matcher.push("e end, or so"), "the end");
  EXPECT_EQ(matcher.finish(), "");
}

}  // namespace
}  // namespace tp
