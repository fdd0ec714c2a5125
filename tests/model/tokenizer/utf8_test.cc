#include "model/tokenizer/text/utf8.h"

#include <gtest/gtest.h>

namespace tp::utf8 {
namespace {

std::string repaired(std::string_view text) {
  std::string out;
  append_repaired(out, text);
  return out;
}

TEST(Utf8, ReadsCharactersOfEveryLength) {
  EXPECT_EQ(first_character("a").code_point, U'a');
  EXPECT_EQ(first_character("\xC3\xA9x").code_point, U'\u00E9');
  EXPECT_EQ(first_character("\xE4\xB8\xADx").code_point, U'\u4E2D');
  EXPECT_EQ(first_character("\xF0\x9F\xA6\x99x").code_point, U'\U0001F999');
  EXPECT_EQ(first_character("\xF4\x8F\xBF\xBF").code_point, U'\U0010FFFF');
}

TEST(Utf8, WritesReadCharactersUnchanged) {
  for (char32_t c = 0; c < 0x110000; c += 7) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append(text, c);
    ASSERT_EQ(first_character(text).code_point, c);
    ASSERT_EQ(first_character(text).length, text.size());
    ASSERT_EQ(last_character("x" + text), c);
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(valid_length(""), 0U);
  EXPECT_EQ(valid_length("a\xC3\xA9z"), 4U);
  EXPECT_EQ(valid_length("a\xC3\xA9\xE4\xB8"), 3U);
  EXPECT_EQ(valid_length("ab\xFFz"), 2U);
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndNumbersBeyondUnicode) {
  EXPECT_FALSE(is_valid("\xC0\xAF"));
  EXPECT_FALSE(is_valid("\xE0\x80\xAF"));
  EXPECT_FALSE(is_valid("\xED\xA0\x80"));
  EXPECT_FALSE(is_valid("\xF4\x90\x80\x80"));
  EXPECT_FALSE(is_valid("\xF5\x80\x80\x80"));
  EXPECT_FALSE(is_valid("\x80"));
  EXPECT_FALSE(is_valid("a\xE4\xB8"));
}

// The examples of the Unicode standard, section 3.9, "U+FFFD Substitution of Maximal Subparts".
TEST(Utf8, ReplacesEachMaximalIllFormedPart) {
  EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "��������A");
  EXPECT_EQ(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), "��������A");
  EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "�����A��B");
  EXPECT_EQ(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "����A");
}

TEST(Utf8, FindsTheUnfinishedCharacterAtTheEnd) {
  EXPECT_EQ(incomplete_tail(""), 0u);
  EXPECT_EQ(incomplete_tail("a"), 0u);
  EXPECT_EQ(incomplete_tail("\xE4\xB8\xAD"), 0u);
  EXPECT_EQ(incomplete_tail("a\xE4\xB8"), 2u);
  EXPECT_EQ(incomplete_tail("\xF0\x9F\xA6"), 3u);
  EXPECT_EQ(incomplete_tail("\xC3\xA9\xC3"), 1u);
  EXPECT_EQ(incomplete_tail("\xE4\xFF"), 0u);
  EXPECT_EQ(incomplete_tail("\xE0\x80"), 0u);
}

}  // namespace
}  // namespace tp::utf8
