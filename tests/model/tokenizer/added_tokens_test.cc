#include "model/tokenizer/steps/added_tokens.h"

#include "tests/model/tokenizer/test_tokenizer.h"

#include <algorithm>
#include <cctype>
#include <random>
#include <set>

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
  return AddedTokens::from_json(testing::node_of(tokens), Vocabulary(), lowered);
}

// "a|<1>|b": text unchanged, tokens as <id>.
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

TEST(AddedTokens, TheLongestWinsAmongTokensAtOnePlace) {
  const std::vector<json> tokens = {token(1, "ab"), token(2, "abcd"), token(3, "cd")};
  EXPECT_EQ(raw(tokens, "abcd"), "<2>");
  EXPECT_EQ(raw(tokens, "abc"), "<1>|c");
  EXPECT_EQ(raw(tokens, "xcdab"), "x|<3>|<1>");
}

TEST(AddedTokens, TheLeftmostWinsOverALongerOne) {
  EXPECT_EQ(raw({token(1, "ab"), token(2, "bcde")}, "abcde"), "<1>|cde");
}

TEST(AddedTokens, IncludeAdjacentWhiteSpaceIfTheyStripIt) {
  EXPECT_EQ(raw({token(1, "<m>", {{"lstrip", true}})}, "a \u00A0<m> b"), "a|<1>| b");
  EXPECT_EQ(raw({token(1, "<m>", {{"rstrip", true}})}, "a <m> \n b"), "a |<1>|b");
  EXPECT_EQ(raw({token(1, "<l>", {{"lstrip", true}}), token(2, "<r>", {{"rstrip", true}})}, "<r>  <l>"),
            "<2>|<1>");
}

TEST(AddedTokens, AreNotTakenOutOfWordsIfTheyAreSingleWords) {
  const std::vector<json> tokens = {token(1, "ing", {{"single_word", true}})};
  EXPECT_EQ(raw(tokens, "ing sing ings é\u0301ing ing!"), "<1>| sing ings é\u0301ing |<1>|!");
  EXPECT_EQ(raw(tokens, "\u200Ding ing\u24B6 ing\u200B"), "\u200Ding ing\u24B6 |<1>|\u200B");
}

TEST(AddedTokens, AreFoundInNormalizedTextIfTheyAreNormalized) {
  const AddedTokens tokens = added({token(1, "YES", {{"normalized", true}}), token(2, "NO")});
  EXPECT_EQ(shown(tokens.split_raw(MarkedText("YES NO")), "YES NO"), "YES |<2>");
  EXPECT_EQ(shown(tokens.split_normalized(MarkedText("yes no")), "yes no"), "<1>| no");
}

TEST(AddedTokens, MatchTheFirstSpecialTokenIfTheyNormalizeAlike) {
  const json text = {{"normalized", true}, {"special", false}};
  const json control = {{"normalized", true}, {"special", true}};
  const auto found = [](const std::vector<json>& tokens) {
    return shown(added(tokens).split_normalized(MarkedText("yes")), "yes");
  };
  EXPECT_EQ(found({token(1, "Yes", text), token(2, "YES", text)}), "<1>");
  EXPECT_EQ(found({token(1, "Yes", text), token(2, "YES", control), token(3, "yes", control)}), "<2>");
}

// The rules of the `tokenizers` library, applied one after the other to lists of characters (a letter or a
// space each).
struct NaiveToken {
  std::string pattern;
  int id;
  bool lstrip, rstrip, single_word;
};

std::string naively_split(const std::vector<NaiveToken>& tokens, const std::string& text) {
  std::string result;
  const auto add = [&](const std::string& part) { result += (result.empty() ? "" : "|") + part; };
  std::size_t done = 0;
  std::size_t place = 0;
  while (place < text.size()) {
    const NaiveToken* longest = nullptr;
    for (const NaiveToken& token : tokens) {
      const bool matches = text.compare(place, token.pattern.size(), token.pattern) == 0;
      if (matches && (longest == nullptr || token.pattern.size() > longest->pattern.size())) longest = &token;
    }
    if (longest == nullptr) {
      ++place;
      continue;
    }
    std::size_t begin = place;
    std::size_t end = place + longest->pattern.size();
    place = end;
    const bool in_word = (begin > 0 && std::isalnum(text[begin - 1]) != 0) ||
                         (end < text.size() && std::isalnum(text[end]) != 0);
    if (longest->single_word && in_word) continue;
    while (longest->lstrip && begin > done && text[begin - 1] == ' ') --begin;
    while (longest->rstrip && end < text.size() && text[end] == ' ') ++end;
    if (done < begin) add(text.substr(done, begin - done));
    add(fmt::format("<{}>", longest->id));
    done = end;
  }
  if (done < text.size()) add(text.substr(done));
  return result;
}

TEST(AddedTokens, AreFoundByTheRulesInAnyCombination) {
  std::mt19937 random(11);
  const auto coin = [&] { return random() % 2 == 0; };
  const auto random_text = [&](std::size_t size) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i) text += "aAb  -"[random() % 6];
    return text;
  };
  std::size_t found = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<json> tokens;
    std::vector<NaiveToken> raw_tokens;
    std::vector<NaiveToken> normalized_tokens;
    std::set<std::string> contents;
    for (int id = 1; id <= 6; ++id) {
      std::string content = random_text(1 + random() % 3);
      while (!contents.insert(content).second) content = random_text(1 + random() % 3);
      const json flags = {{"special", coin()},
                          {"normalized", coin()},
                          {"lstrip", coin()},
                          {"rstrip", coin()},
                          {"single_word", coin()}};
      tokens.push_back(token(id, content, flags));
      std::vector<NaiveToken>& list = flags["normalized"] ? normalized_tokens : raw_tokens;
      const NaiveToken one = {flags["normalized"] ? lowered(content) : content, id, flags["lstrip"],
                              flags["rstrip"], flags["single_word"]};
      // Special tokens come first, in their order.
      const auto behind_special = std::find_if(list.begin(), list.end(), [&](const NaiveToken& other) {
        return !tokens[static_cast<std::size_t>(other.id) - 1]["special"].get<bool>();
      });
      list.insert(flags["special"] ? behind_special : list.end(), one);
    }
    const AddedTokens under_test = added(tokens);
    for (int i = 0; i < 10; ++i) {
      const std::string text = random_text(random() % 16);
      const std::string low = lowered(text);
      const std::string raw_result = shown(under_test.split_raw(MarkedText(text)), text);
      ASSERT_EQ(raw_result, naively_split(raw_tokens, text)) << json(tokens) << " in '" << text << "'";
      ASSERT_EQ(shown(under_test.split_normalized(MarkedText(low)), low),
                naively_split(normalized_tokens, low))
          << json(tokens) << " in '" << low << "'";
      found += raw_result.find('<') != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(found, 5000U);
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
