// Compares Mistral's tekken.json with an independent implementation, which merges bytes by the rank of the
// merged token.
#include "model/tokenizer/tokenizer_files.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/naive_bpe.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <map>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

constexpr TokenId kControlTokens = 10;

std::string from_base64(const std::string& text) {
  static const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned buffer = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    buffer = buffer << 6 | static_cast<unsigned>(alphabet.find(c));
    bits += 6;
    if (bits >= 8) bytes += static_cast<char>(buffer >> (bits -= 8) & 0xFF);
  }
  return bytes;
}

// The fixture's pattern " ?[^ ]+| +", by hand.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t spaces = std::min(text.find_first_not_of(' ', at), text.size()) - at;
    // A word includes the preceding space if there is exactly one.
    std::size_t size = spaces;
    if (spaces <= 1 && at + spaces < text.size())
      size = std::min(text.find(' ', at + spaces), text.size()) - at;
    words.push_back(text.substr(at, size));
    at += size;
  }
  return words;
}

Ids expected_ids(const std::map<std::string, TokenId>& ranks, const std::string& text) {
  Ids ids;
  for (const std::string& word : words_of(text)) {
    for (const TokenId rank : testing::merged_by_rank(ranks, word)) ids.push_back(rank + kControlTokens);
  }
  return ids;
}

json fixture() { return testing::read_json(testing::copied_folder("tekken") / "tekken.json"); }

std::string error_of(const json& content) {
  const test::TemporaryDirectory folder;
  folder.write("tekken.json", content.dump());
  return test::error_or_none<CheckpointError>([&] { Tokenizer::load(folder.path()); });
}

TEST(Tekken, PutsItsRanksAfterTheControlTokens) {
  std::map<std::string, TokenId> ranks;
  const json file = fixture();
  const TokenId size = file["config"]["default_vocab_size"].get<TokenId>() - kControlTokens;
  for (const json& token : file["vocab"])
    if (token["rank"] < size) ranks[from_base64(token["token_bytes"])] = token["rank"];
  const std::filesystem::path folder = testing::copied_folder("tekken");
  EXPECT_TRUE(holds_tokenizer(folder));
  const Tokenizer tokenizer = Tokenizer::load(folder);
  EXPECT_EQ(tokenizer.vocab_size(), static_cast<std::size_t>(size + kControlTokens));
  std::mt19937 random(3);
  const std::vector<std::string> parts = {"the",   " cat", "s",  " dog", "and", " ",      "  ",
                                          "there", "at",   "中", "é",    "\n",  "surplus"};
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (std::size_t count = random() % 12; count > 0; --count) text += parts[random() % parts.size()];
    EXPECT_EQ(tokenizer.encode(text, AddSpecial::no), expected_ids(ranks, text)) << text;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, AddSpecial::yes), SkipSpecial::yes), text);
  }
}

TEST(Tekken, HasTheControlTokensOfMistralByDefault) {
  const Tokenizer tokenizer = Tokenizer::load(testing::copied_folder("tekken"));
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.encode("[INST]", AddSpecial::yes), (Ids{1, 3}));
  EXPECT_EQ(tokenizer.encode(MarkedText::input("[INST]"), AddSpecial::no).size(), 6U) << "input is text";
  json file = fixture();
  file["special_tokens"] = {{{"rank", 1}, {"token_str", "<s>"}, {"is_control", true}},
                            {{"rank", 4}, {"token_str", "<tool>"}, {"is_control", true}}};
  const test::TemporaryDirectory folder;
  folder.write("tekken.json", file.dump());
  const Tokenizer named = Tokenizer::load(folder.path());
  EXPECT_EQ(named.encode("<tool><SPECIAL_9>", AddSpecial::no), (Ids{4, 9}));
  EXPECT_EQ(named.eos_id(), std::nullopt);
}

TEST(Tekken, ExplainsErrors) {
  const auto expect = [](const std::function<void(json&)>& damage, const std::string& part) {
    json file = fixture();
    damage(file);
    const std::string error = error_of(file);
    EXPECT_CONTAINS(error, part);
  };
  expect([](json&) {}, "no error");
  expect(
      [](json& j) {
        j["vocab"].erase(300);
        j["vocab"].erase(300);
        j["vocab"].erase(300);
      },
      "vocab: found");
  expect([](json& j) { j["vocab"][7]["rank"] = 8; }, "rank 8 a second time");
  expect([](json& j) { j["vocab"][7]["token_bytes"] = "!"; }, "vocab[7].token_bytes");
  expect([](json& j) { j["vocab"][7]["token_bytes"] = ""; }, "vocab[7].token_bytes");
  expect([](json& j) { j["vocab"] = 3; }, "vocab: found");
  expect([](json& j) { j["config"].erase("pattern"); }, "pattern");
  expect([](json& j) { j["config"]["pattern"] = "(a"; }, "config.pattern");
  expect([](json& j) { j["config"]["default_num_special_tokens"] = 99999; }, "default_num_special_tokens");
}

}  // namespace
}  // namespace tp
