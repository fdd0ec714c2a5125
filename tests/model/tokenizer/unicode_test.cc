#include "model/tokenizer/text/unicode.h"

#include <chrono>

#include <gtest/gtest.h>

namespace tp::unicode {
namespace {

TEST(Unicode, ComposesAndDecomposes) {
  EXPECT_EQ(normalize("e\u0301", Form::nfc), "\u00E9");
  EXPECT_EQ(normalize("\u00E9", Form::nfd), "e\u0301");
  EXPECT_EQ(normalize("\uFB01\u00B2", Form::nfc), "\uFB01\u00B2");
  EXPECT_EQ(normalize("\uFB01\u00B2", Form::nfkc), "fi2");
  EXPECT_EQ(normalize("\uFB01\u00E9", Form::nfkd), "fie\u0301");
}

TEST(Unicode, ComposesHangul) {
  EXPECT_EQ(normalize("\uAC01", Form::nfd), "\u1100\u1161\u11A8");
  EXPECT_EQ(normalize("\u1100\u1161\u11A8", Form::nfc), "\uAC01");
}

TEST(Unicode, PutsMarksIntoCanonicalOrder) {
  EXPECT_EQ(normalize("q\u0307\u0323", Form::nfc), "q\u0323\u0307");
  EXPECT_EQ(normalize("q\u0323\u0307", Form::nfc), "q\u0323\u0307");
  EXPECT_EQ(normalize("a\u0301\u0300", Form::nfc),
            "\u00E1\u0300");  // marks of the same class keep their order
}

TEST(Unicode, KeepsNulAndLineEnds) {
  using namespace std::string_literals;
  EXPECT_EQ(normalize("\u00E9\0\r\n"s, Form::nfc), "\u00E9\0\r\n"s);
}

TEST(Unicode, OrdersHalfAMillionMarksWithoutQuadraticTime) {
  std::string text = "a";
  for (int i = 0; i < 250'000; ++i) text += "\u0301\u0316";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(normalize(text, Form::nfd).size(), text.size());
  // Takes 0.1 s; swapping neighbours would take minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Unicode, LowersCharactersOneByOne) { EXPECT_EQ(to_lower("ÀΣ\u0130Z"), "àσi\u0307z"); }

TEST(Unicode, RemovesMarks) { EXPECT_EQ(without_marks("e\u0301\u0903a"), "ea"); }

TEST(Unicode, StripsWhiteSpaceOfAllKinds) {
  EXPECT_EQ(stripped("\u3000 \ta b\u00A0\n", true, true), "a b");
  EXPECT_EQ(stripped(" a ", true, false), "a ");
  EXPECT_EQ(stripped(" a ", false, true), " a");
  EXPECT_EQ(stripped(" \u2003", true, true), "");
  EXPECT_EQ(stripped("\u180E", true, true), "\u180E");  // was white space before Unicode 6.3
}

TEST(Unicode, KnowsWordCharacters) {
  for (const char32_t c : U"aZ9_é中Ⅷ\u0301") EXPECT_EQ(is_word_character(c), c != 0) << std::uint32_t{c};
  for (const char32_t c : U" -.²€\u200B") EXPECT_FALSE(is_word_character(c)) << std::uint32_t{c};
}

}  // namespace
}  // namespace tp::unicode
