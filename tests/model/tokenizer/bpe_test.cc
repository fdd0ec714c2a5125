#include "model/tokenizer/models/bpe.h"

#include "model/tokenizer/models/bpe_json.h"
#include "model/tokenizer/text/utf8.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/naive_bpe.h"
#include "tests/model/tokenizer/test_tokenizer.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

Ids encoded(const Bpe& bpe, std::string_view text) {
  Ids ids;
  bpe.encode(text, ids);
  return ids;
}

Bpe bpe_of(json model, const json& options = json::object()) {
  model.update(options);
  return bpe_from_json(testing::node_of(model));
}

TEST(Bpe, MergesTheLowestRankFirstAndTheLeftmostOfEqualRanks) {
  const json model = testing::bpe_json({"a", "b", "c", "bc", "ab", "aa"}, {"b c", "a b", "a a"});
  const Bpe bpe = bpe_of(model);
  EXPECT_EQ(encoded(bpe, "abc"), (Ids{0, 3}));
  EXPECT_EQ(encoded(bpe, "abab"), (Ids{4, 4}));
  EXPECT_EQ(encoded(bpe, "aaa"), (Ids{5, 0}));
  EXPECT_EQ(encoded(bpe, ""), Ids{});
}

TEST(Bpe, AcceptsMergesAsPairs) {
  json model = testing::bpe_json({"a", " ", "a "});
  model["merges"] = json::array({json::array({"a", " "})});
  EXPECT_EQ(encoded(bpe_of(model), "a a"), (Ids{2, 0}));
}

TEST(Bpe, TheLaterOfTwoEqualMergesGivesTheRank) {
  const json model = testing::bpe_json({"a", "b", "c", "ab", "bc"}, {"a b", "b c", "a b"});
  EXPECT_EQ(encoded(bpe_of(model), "abc"), (Ids{0, 4}));
}

TEST(Bpe, GivesNothingForUnknownCharactersWithoutUnknownToken) {
  EXPECT_EQ(encoded(bpe_of(testing::bpe_json({"a"})), "aéa"), (Ids{0, 0}));
}

TEST(Bpe, FusesUnknownCharactersIfAsked) {
  const json model = testing::bpe_json({"a", "<unk>"});
  EXPECT_EQ(encoded(bpe_of(model, {{"unk_token", "<unk>"}}), "éxaé"), (Ids{1, 1, 0, 1}));
  EXPECT_EQ(encoded(bpe_of(model, {{"unk_token", "<unk>"}, {"fuse_unk", true}}), "éxaé"), (Ids{1, 0, 1}));
}

TEST(Bpe, FallsBackToBytesIfAllOfThemHaveTokens) {
  const json model = testing::bpe_json({"a", "<unk>", "<0xC3>", "<0xA9>"});
  const Bpe bpe = bpe_of(model, {{"unk_token", "<unk>"}, {"byte_fallback", true}});
  EXPECT_EQ(encoded(bpe, "éa"), (Ids{2, 3, 0}));
  EXPECT_EQ(encoded(bpe, "èa"), (Ids{1, 0}));
}

TEST(Bpe, KeepsAPieceThatIsATokenIfMergesAreIgnored) {
  const json model = testing::bpe_json({"a", "b", "c", "abc"});
  EXPECT_EQ(encoded(bpe_of(model), "abc"), (Ids{0, 1, 2}));
  EXPECT_EQ(encoded(bpe_of(model, {{"ignore_merges", true}}), "abc"), (Ids{3}));
  EXPECT_EQ(encoded(bpe_of(model, {{"ignore_merges", true}}), "abca"), (Ids{0, 1, 2, 0}));
}

TEST(Bpe, MergesAcrossWordMarksIfAMergeContainsThem) {
  const json model =
      testing::bpe_json({"a", "b", "▁", "▁b", "a▁", "▁▁", "a▁b"}, {"a ▁", "▁ ▁", "▁ b", "a▁ b"});
  const Bpe bpe = bpe_of(model);
  EXPECT_EQ(encoded(bpe, "a▁b"), (Ids{6}));
  EXPECT_EQ(encoded(bpe, "b▁b"), (Ids{1, 3}));
  EXPECT_EQ(encoded(bpe, "b▁▁▁b"), (Ids{1, 5, 3}));
}

TEST(Bpe, MergesByteTokensAndWordMarksIfAMergeContainsThem) {
  const json model = testing::bpe_json({"▁", "<0xC3>", "<0xA9>", "<0xA9>▁"}, {"<0xA9> ▁"});
  EXPECT_EQ(encoded(bpe_of(model, {{"byte_fallback", true}}), "é▁"), (Ids{1, 3}));
}

TEST(Bpe, MatchesItsDefinitionForRealVocabularies) {
  const json model = testing::read_json(testing::copied_folder("gemma-style") / "tokenizer.json")["model"];
  const Bpe bpe = bpe_of(model);
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    utf8::append_repaired(text, testing::random_text(random, 1 + random() % 60));
    if (random() % 2 == 0) text += "▁the▁king▁and▁the▁queen▁▁▁were▁speaking";
    ASSERT_EQ(encoded(bpe, text), testing::naive_bpe(model, text)) << text;
  }
}

// Merges that cross word marks, in every arrangement of three characters and a mark.
TEST(Bpe, MatchesItsDefinitionForRandomVocabularies) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> tokens = {"a", "b", ">", "▁"};
    std::vector<std::string> merges;
    for (int i = 0; i < 12; ++i) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (std::find(tokens.begin(), tokens.end(), left + right) != tokens.end()) continue;
      tokens.push_back(left + right);
      merges.push_back(left + " " + right);
    }
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
    const json model = testing::bpe_json(tokens, merges);
    const Bpe bpe = bpe_of(model, {{"byte_fallback", true}});
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (int k = 0; k < 30; ++k)
        text += std::vector<std::string>{"a", "b", ">", "▁", "▁", "é"}[random() % 6];
      ASSERT_EQ(encoded(bpe, text), testing::naive_bpe(model, text)) << text << " " << json(merges);
    }
  }
}

TEST(Bpe, EncodesAMegabyteOfOneCharacterQuickly) {
  std::vector<std::string> tokens = {"a"};
  std::vector<std::string> merges;
  for (int i = 0; i < 8; ++i) {
    merges.push_back(tokens.back() + " " + tokens.back());
    tokens.push_back(tokens.back() + tokens.back());
  }
  const Bpe bpe = bpe_of(testing::bpe_json(tokens, merges));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(encoded(bpe, std::string(1 << 20, 'a')), Ids(1 << 12, 8));
  // Takes 0.3 s. With quadratic time, it would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Bpe, GivesTheSameTokensInManyThreads) {
  const json model = testing::bpe_json({"a", "b", "ab", "ba", "abab"}, {"a b", "ab ab", "b a"});
  const Bpe bpe = bpe_of(model);
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < 5000; ++round) {
      std::string word;
      for (unsigned i = 0, n = 1 + random() % 12; i < n; ++i) word += random() % 2 ? "a" : "b";
      std::string joined;
      for (const TokenId id : encoded(bpe, word)) joined += *bpe.vocabulary().find_text(id);
      ASSERT_EQ(joined, word);
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
}

}  // namespace
}  // namespace tp
