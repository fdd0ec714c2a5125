#include "tp/marked_text.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

// "own", input, "own".
MarkedText sandwich() {
  MarkedText text("ab");
  text.append_input("CD");
  text.append("ef");
  return text;
}

TEST(MarkedText, KnowsWhichBytesAreInput) {
  const MarkedText text = sandwich();
  EXPECT_EQ(text.text(), "abCDef");
  for (std::size_t begin = 0; begin <= 6; ++begin) {
    for (std::size_t end = begin; end <= 6; ++end)
      EXPECT_EQ(text.has_input(begin, end), begin < end && begin < 4 && end > 2) << begin << " " << end;
  }
  EXPECT_FALSE(MarkedText("ab").has_input());
  EXPECT_TRUE(MarkedText::input("ab").has_input());
  EXPECT_FALSE(MarkedText::input("").has_input());
}

TEST(MarkedText, HasRunsOfOneKind) {
  const MarkedText text = sandwich();
  EXPECT_EQ(text.run_end(0), 2U);
  EXPECT_EQ(text.run_end(1), 2U);
  EXPECT_EQ(text.run_end(2), 4U);
  EXPECT_EQ(text.run_end(4), 6U);
  EXPECT_EQ(MarkedText("abc").run_end(1), 3U);
}

TEST(MarkedText, PartsAndWholesKeepTheirMarks) {
  const MarkedText text = sandwich();
  MarkedText expected = MarkedText::input("D");
  expected.append("e");
  EXPECT_EQ(text.substr(3, 2), expected);
  EXPECT_EQ(text.part(std::string_view(text.text()).substr(3, 2)), expected);
  EXPECT_EQ(text.substr(4), MarkedText("ef"));
  MarkedText again = text.substr(0, 3);
  again.append(text, 3, MarkedText::npos);
  EXPECT_EQ(again, text);
  MarkedText twice = text;
  twice.append(twice);
  EXPECT_EQ(twice.text(), "abCDefabCDef");
  EXPECT_EQ(twice.substr(6), text);
}

TEST(MarkedText, DiffersFromTheSameBytesWithOtherMarks) {
  EXPECT_NE(MarkedText("ab"), MarkedText::input("ab"));
  EXPECT_NE(sandwich(), MarkedText("abCDef"));
  EXPECT_EQ(MarkedText(""), MarkedText::input(""));
  EXPECT_EQ(sandwich().substr(0, 2), MarkedText("ab"));
}

TEST(MarkedText, ChangesItsRunsOneByOne) {
  const MarkedText text =
      sandwich().transformed([](std::string_view run) { return "<" + std::string(run) + ">"; });
  EXPECT_EQ(text.text(), "<ab><CD><ef>");
  EXPECT_FALSE(text.has_input(0, 4));
  EXPECT_EQ(text.substr(4, 4), MarkedText::input("<CD>"));
  EXPECT_FALSE(text.has_input(8, 12));
}

}  // namespace
}  // namespace tp
