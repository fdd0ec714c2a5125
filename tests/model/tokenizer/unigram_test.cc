#include "model/tokenizer/models/unigram.h"

#include "model/tokenizer/text/base64.h"
#include "model/tokenizer/text/precompiled_map.h"
#include "model/tokenizer/text/utf8.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/test_tokenizer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

struct Token {
  std::string text;
  double score;
};

Unigram unigram(const std::vector<Token>& tokens, const Unigram::Options& options) {
  std::vector<std::pair<std::string_view, TokenId>> texts;
  std::vector<double> scores;
  for (const Token& token : tokens) {
    texts.emplace_back(token.text, static_cast<TokenId>(scores.size()));
    scores.push_back(token.score);
  }
  return Unigram(Vocabulary(texts), scores, options);
}

Ids encode(const Unigram& model, const std::string& text) {
  Ids ids;
  model.encode(text, ids);
  return ids;
}

// Returns the largest sum of scores by trying all divisions. Every character is a token.
double best_score(const std::vector<Token>& tokens, std::string_view text) {
  if (text.empty()) return 0.0;
  double best = -std::numeric_limits<double>::infinity();
  for (const Token& token : tokens) {
    if (!token.text.empty() && text.starts_with(token.text))
      best = std::max(best, token.score + best_score(tokens, text.substr(token.text.size())));
  }
  return best;
}

TEST(Unigram, FindsTheTokensOfGreatestScore) {
  std::mt19937 random(7);
  const std::vector<std::string> texts = {"a", "b", "c", "ab", "bc", "abc", "ca", "aa", "bca", "cab"};
  for (int round = 0; round < 200; ++round) {
    std::vector<Token> tokens;
    for (const std::string& text : texts)
      tokens.push_back({text, -1.0 - static_cast<double>(random() % 1000) / 100.0});
    std::string text;
    while (text.size() < 10) text.push_back("abc"[random() % 3]);
    std::string joined;
    double score = 0.0;
    for (const TokenId id : encode(unigram(tokens, {}), text)) {
      joined += tokens[static_cast<std::size_t>(id)].text;
      score += tokens[static_cast<std::size_t>(id)].score;
    }
    ASSERT_EQ(joined, text);
    ASSERT_NEAR(score, best_score(tokens, text), 1e-9);
  }
}

TEST(Unigram, WritesUnknownCharactersInARowAsOneTokenOrTheirBytes) {
  const std::vector<Token> tokens = {{"<unk>", 0}, {"a", -1}, {"<0xC3>", -9}, {"<0xA9>", -9}};
  EXPECT_EQ(encode(unigram(tokens, {.unknown = 0}), "a\u00e9\u00e9xa"), (Ids{1, 0, 1}));
  EXPECT_EQ(encode(unigram(tokens, {.unknown = 0, .byte_fallback = true}), "a\u00e9a"), (Ids{1, 2, 3, 1}));
  EXPECT_EQ(encode(unigram(tokens, {.unknown = 0, .byte_fallback = true}), "a\u00e9x"), (Ids{1, 0}))
      << "x has no byte token";
  EXPECT_EQ(encode(unigram(tokens, {}), "xax"), (Ids{1}));
  EXPECT_EQ(encode(unigram(tokens, {}), ""), Ids{});
}

TEST(Unigram, ATokenIsTakenBeforeAnUnknownCharacter) {
  // "é" is only a part of "aé". As an unknown character, it would cost ten more than the lowest score.
  const std::vector<Token> tokens = {{"<unk>", 0}, {"a", -1}, {"a\u00e9", -12}};
  EXPECT_EQ(encode(unigram(tokens, {.unknown = 0}), "a\u00e9"), (Ids{2}));
  EXPECT_EQ(encode(unigram(tokens, {.unknown = 0}), "\u00e9a"), (Ids{0, 1}));
}

TEST(DamagedUnigram, IsRefused) {
  const auto error_after = [](const std::function<void(json&)>& damage) {
    json content = testing::unigram_json({"a"});
    damage(content);
    return testing::error_of_loading(content.dump());
  };
  const auto expect = [](const std::string& error, const std::string& part) { EXPECT_CONTAINS(error, part); };
  for (const json& entry : {json("a"), json::array({"a"}), json::array({1, 2}), json::array({"a", "b"}),
                            json::array({"a", 1, 2}), json(nullptr)})
    expect(error_after([&](json& j) { j["model"]["vocab"].push_back(entry); }), "model.vocab[2]: found");
  expect(error_after([](json& j) { j["model"]["vocab"] = json::object(); }), "model.vocab: found");
  for (const json& id : {json(2), json(-1), json("0")})
    expect(error_after([&](json& j) { j["model"]["unk_id"] = id; }), "model.unk_id: found");
  for (const char* map : {"", "AAAA", "====", "not base64", "BAAAAAAAAAA=", "/////w=="}) {
    expect(error_after([&](json& j) {
             j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", map}};
           }),
           "normalizer.precompiled_charsmap: found");
  }
}

// The `tokenizers` library replaces a grapheme cluster of up to five bytes by the replacement of its shortest
// prefix in the table (Precompiled::normalize in precompiled.rs). The table is SentencePiece's nmt_nfkc.
TEST(PrecompiledMap, ReplacesGraphemeClustersAsTheTokenizersLibrary) {
  const json normalizer =
      testing::read_json(testing::copied_folder("unigram-t5style") / "tokenizer.json")["normalizer"];
  const std::string table = normalizer["normalizers"][0]["precompiled_charsmap"];
  const std::optional<std::string> bytes = decoded_base64(table);
  const std::optional<PrecompiledMap> map = PrecompiledMap::from_bytes(*bytes);
  ASSERT_TRUE(map);
  const std::pair<const char*, const char*> cases[] = {
      {"\u2167", "VIII"},
      {"\u2167\u0301", "VIII"},                    // five bytes: the mark is dropped
      {"\u2167\u0301\u0301", "VIII\u0301\u0301"},  // seven bytes
      {"\u2167\u20D7", "VIII\u20D7"},              // six bytes
      {"a\u2167\u0301b", "aVIIIb"},
      {"e\u0301", "\u00E9"},
      {"e\u0301\u0301\u0301", "\u00E9\u0301\u0301"},  // seven bytes
      {"\r\n", " "},                                  // one cluster
      {"\n\n", "  "},
      {"\uFF76\uFF9E", "\u30AC"},  // six bytes: the table has the pair
      {"\U0001F1E9\U0001F1EA\u2167", "\U0001F1E9\U0001F1EAVIII"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(map->normalize(text), expected) << json(text);
}

// For any trie, the result is text, and nothing outside the table is read.
TEST(PrecompiledMap, SurvivesRandomTries) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t units = 1 + random() % 300;
    std::string bytes;
    const auto put = [&](std::uint32_t word) {
      for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(word >> shift));
    };
    put(4 * units);
    for (std::uint32_t i = 0; i < units; ++i)
      put((random() % 512) << 10 | (random() & 0x100) | ('a' + random() % 4));
    bytes += std::string("x\xC3\xA9\0y\0", 6);
    const std::optional<PrecompiledMap> map = PrecompiledMap::from_bytes(bytes);
    ASSERT_TRUE(map);
    EXPECT_TRUE(utf8::is_valid(map->normalize("abcdabcd\u00e9abba")));
  }
}

}  // namespace
}  // namespace tp
