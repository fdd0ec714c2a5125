#include "model/tokenizer/embedded_vocabulary.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tp/error.h"

#include <functional>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;
using Scheme = EmbeddedVocabulary::Scheme;

// Returns the vocabulary of a GGUF file for a tokenizer.json with byte-level BPE.
EmbeddedVocabulary embedded_from(const json& tokenizer, const std::string& pre_tokenizer) {
  EmbeddedVocabulary embedded;
  embedded.pre_tokenizer = pre_tokenizer;
  const auto put = [&](std::size_t id, const std::string& text, TokenType type) {
    if (embedded.tokens.size() <= id) {
      embedded.tokens.resize(id + 1);
      embedded.types.resize(id + 1, TokenType::unused);
    }
    embedded.tokens[id] = text;
    embedded.types[id] = type;
  };
  for (const auto& [text, id] : tokenizer["model"]["vocab"].items()) put(id, text, TokenType::normal);
  for (const json& token : tokenizer["added_tokens"])
    put(token["id"], token["content"], token["special"] ? TokenType::control : TokenType::user_defined);
  for (const json& merge : tokenizer["model"]["merges"]) {
    embedded.merges.push_back(merge.is_string()
                                  ? merge.get<std::string>()
                                  : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return embedded;
}

class EmbeddedVocabularyOf : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(EmbeddedVocabularyOf, GivesTheIdsOfTokenizerJson) {
  const auto [name, pre_tokenizer] = GetParam();
  const std::filesystem::path folder = testing::shared_folder(name);
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not on this machine";
  const Tokenizer tokenizer(parts_from_vocabulary(
      embedded_from(testing::read_json(folder / "tokenizer.json"), pre_tokenizer), "x.gguf"));
  const json expected = testing::read_json(folder / "expected.json");
  for (const json& c : expected.at("cases")) {
    EXPECT_EQ(json(tokenizer.encode(c["text"].get<std::string>(), AddSpecial::no)), c["ids"]) << c["text"];
    EXPECT_EQ(tokenizer.decode(c["ids"].get<Ids>(), SkipSpecial::no), c["decoded"]);
  }
}

INSTANTIATE_TEST_SUITE_P(ByteLevel, EmbeddedVocabularyOf,
                         ::testing::Values(std::pair("gpt2", "gpt-2"), std::pair("llama3", "llama-bpe"),
                                           std::pair("qwen2", "qwen2")),
                         [](const auto& info) { return std::string(info.param.first); });

// a, b, ▁ and their merges. The scores prefer "ab" to "▁a".
EmbeddedVocabulary small_sentencepiece() {
  EmbeddedVocabulary embedded;
  embedded.scheme = Scheme::sentencepiece_bpe;
  embedded.tokens = {"<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", "▁",     "a",
                     "b",     "▁a",  "ab",   "▁ab",    "aa",     "<tool>"};
  embedded.types = {TokenType::unknown,     TokenType::control, TokenType::control, TokenType::byte,
                    TokenType::byte,        TokenType::normal,  TokenType::normal,  TokenType::normal,
                    TokenType::normal,      TokenType::normal,  TokenType::normal,  TokenType::normal,
                    TokenType::user_defined};
  embedded.scores = {0, 0, 0, 0, 0, -10, -11, -12, -2, -1, -3, -2, 0};
  embedded.bos = 1;
  embedded.eos = 2;
  embedded.unknown = 0;
  return embedded;
}

TEST(EmbeddedVocabulary, MergesByScoreAndFromLeftToRight) {
  const Tokenizer tokenizer(parts_from_vocabulary(small_sentencepiece(), "x.gguf"));
  EXPECT_EQ(tokenizer.encode("ab", AddSpecial::no), (Ids{10}));
  EXPECT_EQ(tokenizer.encode("aa", AddSpecial::no), (Ids{8, 6}));  // "▁a" and "aa" have equal scores
  EXPECT_EQ(tokenizer.encode("baaa", AddSpecial::no), (Ids{5, 7, 11, 6}));
  EXPECT_EQ(tokenizer.encode("a\u00e9zz", AddSpecial::no), (Ids{8, 3, 4, 0}));
  EXPECT_EQ(tokenizer.encode("a</s><tool>", AddSpecial::no), (Ids{8, 2, 12}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 8, 3, 4, 12, 2}, SkipSpecial::yes), "a\u00e9<tool>");
}

TEST(EmbeddedVocabulary, AddsControlTokensIfItsFlagsAskForThem) {
  EmbeddedVocabulary embedded = small_sentencepiece();
  const auto encode = [&] {
    return Tokenizer(parts_from_vocabulary(embedded, "x.gguf")).encode("ab", AddSpecial::yes);
  };
  EXPECT_EQ(encode(), (Ids{10}));
  embedded.add_bos = true;
  EXPECT_EQ(encode(), (Ids{1, 10}));
  embedded.add_eos = true;
  EXPECT_EQ(encode(), (Ids{1, 10, 2}));
  embedded.add_space_prefix = false;
  EXPECT_EQ(encode(), (Ids{1, 9, 2}));
}

TEST(EmbeddedVocabulary, UnusedTokensHaveNoText) {
  EmbeddedVocabulary embedded = embedded_from(testing::byte_level_json(), "gpt-2");
  embedded.tokens.push_back("[PAD]");
  embedded.types.push_back(TokenType::unused);
  Tokenizer tokenizer(parts_from_vocabulary(embedded, "x.gguf"));
  tokenizer.pad_to(embedded.tokens.size());
  EXPECT_EQ(tokenizer.decode(Ids{'a', 257, 'b'}, SkipSpecial::no), "ab");
}

TEST(EmbeddedVocabulary, ExplainsErrors) {
  const auto error_after = [](const std::function<void(EmbeddedVocabulary&)>& damage, bool sentencepiece) {
    EmbeddedVocabulary embedded =
        sentencepiece ? small_sentencepiece() : embedded_from(testing::byte_level_json({"a b"}), "gpt-2");
    damage(embedded);
    return test::error_of<CheckpointError>([&] { parts_from_vocabulary(embedded, "x.gguf"); });
  };
  const auto expect = [](const std::string& error, const std::string& part) { EXPECT_CONTAINS(error, part); };
  expect(error_after([](auto& e) { e.tokens.clear(); }, false),
         "x.gguf: the vocabulary has 0 tokens, expected 1 to");
  expect(error_after([](auto& e) { e.types.pop_back(); }, false), "has 257 types, expected 258");
  expect(error_after([](auto& e) { e.scores.pop_back(); }, true), "has 12 scores, expected 13");
  expect(error_after([](auto& e) { e.scores[3] = std::nanf(""); }, true), "score is not a number");
  expect(error_after([](auto& e) { e.eos = 13; }, true),
         "end-of-sequence token has id 13, expected one below 13");
  expect(error_after([](auto& e) { e.bos = -1; }, true), "beginning-of-sequence token has id -1");
  expect(error_after([](auto& e) { e.tokens[7] = "\xFF"; }, true), "token 7 is not UTF-8");
  for (const char* merge : {"a", "a zz", "a b c", "", "b a"})
    expect(error_after([&](auto& e) { e.merges.push_back(merge); }, false),
           "merge 1 is '" + std::string(merge));
  expect(error_after([](auto& e) { e.pre_tokenizer = "none"; }, false),
         "pre-tokenizer 'none', which tp-infer does not know: expected a name that");
}

}  // namespace
}  // namespace tp
