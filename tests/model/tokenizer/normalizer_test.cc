#include "model/tokenizer/steps/normalizer.h"

#include "tests/model/tokenizer/test_tokenizer.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using namespace std::string_literals;

std::string normalized(const json& part, std::string text) {
  return Normalizer::from_json(testing::node_of(part))(std::move(text));
}

TEST(Normalizer, ChangesNothingByDefault) { EXPECT_EQ(Normalizer()(" É "), " É "); }

TEST(Normalizer, HasEveryUnicodeForm) {
  EXPECT_EQ(normalized({{"type", "NFC"}}, "e\u0301\uFB01"), "\u00E9\uFB01");
  EXPECT_EQ(normalized({{"type", "NFD"}}, "\u00E9\uFB01"), "e\u0301\uFB01");
  EXPECT_EQ(normalized({{"type", "NFKC"}}, "e\u0301\uFB01"), "\u00E9fi");
  EXPECT_EQ(normalized({{"type", "NFKD"}}, "\u00E9\uFB01"), "e\u0301fi");
}

TEST(Normalizer, PrependsToNonEmptyTexts) {
  EXPECT_EQ(normalized({{"type", "Prepend"}, {"prepend", "▁"}}, "a"), "▁a");
  EXPECT_EQ(normalized({{"type", "Prepend"}, {"prepend", "▁"}}, ""), "");
}

TEST(Normalizer, ReplacesStringsAndPatterns) {
  EXPECT_EQ(normalized({{"type", "Replace"}, {"pattern", {{"String", "."}}}, {"content", "!"}}, "a.b"),
            "a!b");
  EXPECT_EQ(normalized({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}, "a   b c"),
            "a b c");
}

TEST(Normalizer, StripsLowersAndRemovesAccents) {
  EXPECT_EQ(normalized({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, " a "), "a ");
  EXPECT_EQ(normalized({{"type", "Lowercase"}}, "ÄB"), "äb");
  EXPECT_EQ(normalized({{"type", "StripAccents"}}, "a\u0308"), "a");
}

json bert(const json& members) {
  json part = {{"type", "BertNormalizer"},
               {"clean_text", false},
               {"handle_chinese_chars", false},
               {"strip_accents", false},
               {"lowercase", false}};
  part.update(members);
  return part;
}

TEST(BertNormalizer, RemovesControlCharactersAndMakesWhiteSpaceSpaces) {
  const json part = bert({{"clean_text", true}});
  EXPECT_EQ(normalized(part, "\uFEFFH\u00E9ll\u00F2"), "H\u00E9ll\u00F2");
  EXPECT_EQ(normalized(part, "a\0\x01\x7F\uFFFD\u00AD\uE000\u200Db"s), "ab");
  EXPECT_EQ(normalized(part, "a\t\n\r\u00A0\u2028\u3000b"), "a      b");
  EXPECT_EQ(normalized(part, "a\v\f\u0085b"), "ab") << "of category Cc";
  EXPECT_EQ(normalized(part, "\uFDD0\U0001FAE8"), "\uFDD0\U0001FAE8") << "what has no category stays";
  EXPECT_EQ(normalized(bert(json::object()), "a\t\uFFFD\x01"), "a\t\uFFFD\x01");
}

TEST(BertNormalizer, PutsSpacesAroundChineseCharacters) {
  const json part = bert({{"handle_chinese_chars", true}});
  EXPECT_EQ(normalized(part, "\u4F60\u597D"), " \u4F60  \u597D ");
  EXPECT_EQ(normalized(part, "ah\u535A\u63A8zz"), "ah \u535A  \u63A8 zz");
  EXPECT_EQ(normalized(part, "\u3042\uAC00"), "\u3042\uAC00") << "neither Japanese nor Korean letters";
  EXPECT_EQ(normalized(part, "\U0002B820\U0002B920"), "\U0002B820 \U0002B920 ");
}

TEST(BertNormalizer, LowersAndStripsAccentsTogetherByDefault) {
  EXPECT_EQ(normalized(bert({{"strip_accents", true}}), "H\u00E9ll\u00F2"), "Hello");
  EXPECT_EQ(normalized(bert({{"lowercase", true}}), "H\u00E9ll\u00F2"), "h\u00E9ll\u00F2");
  EXPECT_EQ(normalized(bert({{"lowercase", true}, {"strip_accents", nullptr}}), "H\u00E9ll\u00F2"), "hello");
  EXPECT_EQ(normalized(bert({{"strip_accents", nullptr}}), "H\u00E9ll\u00F2"), "H\u00E9ll\u00F2");
  EXPECT_EQ(normalized(bert({{"strip_accents", true}}), "\u0915\u093F"), "\u0915\u093F")
      << "marks that take space stay";
  EXPECT_EQ(normalized({{"type", "BertNormalizer"}}, " \tHeLLo!\u4F60"), "  hello! \u4F60 ");
}

TEST(Normalizer, WritesBytesInTheByteLevelAlphabet) {
  EXPECT_EQ(normalized({{"type", "ByteLevel"}}, "Hello \u6211"), "Hello\u0120\u00E6\u012A\u0133");
  EXPECT_EQ(normalized({{"type", "ByteLevel"}}, "a\n"), "a\u010A");
}

TEST(Normalizer, CleansTextsForTranslation) {
  EXPECT_EQ(normalized({{"type", "Nmt"}}, "a\x01\x0B\x7F\u008Fb\t\n\u200B\u2581\uFEFF\uFFFDc"), "ab      c");
  EXPECT_EQ(normalized({{"type", "Nmt"}}, "\0\u0085\u00A0"s), "\0\u0085\u00A0"s);
}

TEST(Normalizer, AppliesSequencesInOrder) {
  const json decompose = {{"type", "NFD"}};
  const json strip = {{"type", "StripAccents"}};
  EXPECT_EQ(normalized({{"type", "Sequence"}, {"normalizers", json::array({decompose, strip})}}, "é"), "e");
  EXPECT_EQ(normalized({{"type", "Sequence"}, {"normalizers", json::array({strip, decompose})}}, "é"),
            "e\u0301");
  EXPECT_EQ(normalized({{"type", "Sequence"}, {"normalizers", json::array()}}, "é"), "é");
}

}  // namespace
}  // namespace tp
