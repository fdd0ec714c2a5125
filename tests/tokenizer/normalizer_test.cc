#include "model/tokenizer/normalizer.h"

#include "tests/tokenizer/test_tokenizer.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;

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

TEST(Normalizer, PrependsToTextsThatAreNotEmpty) {
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
