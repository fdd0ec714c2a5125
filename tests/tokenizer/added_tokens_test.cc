#include "model/tokenizer/added_tokens.h"

#include "tests/tokenizer/test_tokenizer.h"

#include <cctype>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;

json token(int id, const std::string& content, const json& flags = json::object()) {
  json result = {{"id", id},        {"content", content}, {"special", true},     {"normalized", false},
                 {"lstrip", false}, {"rstrip", false},    {"single_word", false}};
  result.update(flags);
  return result;
}

std::string lowered(std::string text) {
  for (char& byte : text) byte = static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  return text;
}

AddedTokens added(const std::vector<json>& tokens) {
  return AddedTokens::from_json(testing::node_of(tokens), lowered);
}

// "a|<1>|b": text as it is, tokens as <id>.
std::string shown(const std::vector<Fragment>& fragments, const std::string& text) {
  std::string result;
  for (const Fragment& fragment : fragments) {
    if (!result.empty()) result += "|";
    const std::string part = text.substr(fragment.span.begin, fragment.span.end - fragment.span.begin);
    result += fragment.token ? fmt::format("<{}>", *fragment.token) : part;
  }
  return result;
}

std::string raw(const std::vector<json>& tokens, const std::string& text) {
  return shown(added(tokens).split_raw(MarkedText(text)), text);
}

TEST(AddedTokens, AreCutOutOfTheText) {
  EXPECT_EQ(raw({token(1, "<s>")}, "<s>a<s><s> b"), "<1>|a|<1>|<1>| b");
  EXPECT_EQ(raw({token(1, "<s>")}, ""), "");
  EXPECT_EQ(raw({token(1, "<s>")}, "<s"), "<s");
  EXPECT_EQ(raw({}, "a"), "a");
}

TEST(AddedTokens, TheLongestOfThoseThatBeginTogetherWins) {
  const std::vector<json> tokens = {token(1, "ab"), token(2, "abcd"), token(3, "cd")};
  EXPECT_EQ(raw(tokens, "abcd"), "<2>");
  EXPECT_EQ(raw(tokens, "abc"), "<1>|c");
  EXPECT_EQ(raw(tokens, "xcdab"), "x|<3>|<1>");
}

TEST(AddedTokens, TheLeftmostWinsOverALongerOne) {
  EXPECT_EQ(raw({token(1, "ab"), token(2, "bcde")}, "abcde"), "<1>|cde");
}

TEST(AddedTokens, TakeTheWhiteSpaceBesideThemIfTheyStripIt) {
  EXPECT_EQ(raw({token(1, "<m>", {{"lstrip", true}})}, "a \u00A0<m> b"), "a|<1>| b");
  EXPECT_EQ(raw({token(1, "<m>", {{"rstrip", true}})}, "a <m> \n b"), "a |<1>|b");
  EXPECT_EQ(raw({token(1, "<l>", {{"lstrip", true}}), token(2, "<r>", {{"rstrip", true}})}, "<r>  <l>"),
            "<2>|<1>");
}

TEST(AddedTokens, AreNotTakenOutOfWordsIfTheyAreSingleWords) {
  const std::vector<json> tokens = {token(1, "ing", {{"single_word", true}})};
  EXPECT_EQ(raw(tokens, "ing sing ings é\u0301ing ing!"), "<1>| sing ings é\u0301ing |<1>|!");
}

TEST(AddedTokens, ThatAreNormalizedAreFoundInNormalizedText) {
  const AddedTokens tokens = added({token(1, "YES", {{"normalized", true}}), token(2, "NO")});
  EXPECT_EQ(shown(tokens.split_raw(MarkedText("YES NO")), "YES NO"), "YES |<2>");
  EXPECT_EQ(shown(tokens.split_normalized(MarkedText("yes no")), "yes no"), "<1>| no");
}

TEST(AddedTokens, AreFoundByContentAndId) {
  const AddedTokens tokens = added({token(5, "<x>", {{"special", false}})});
  EXPECT_EQ(tokens.find("<x>"), 5);
  EXPECT_EQ(tokens.find("<y>"), std::nullopt);
  ASSERT_NE(tokens.by_id(5), nullptr);
  EXPECT_FALSE(tokens.by_id(5)->special);
  EXPECT_EQ(tokens.by_id(4), nullptr);
}

}  // namespace
}  // namespace tp
