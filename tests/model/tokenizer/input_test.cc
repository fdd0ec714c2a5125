// Input in a prompt cannot write control tokens. Otherwise, it is tokenized as usual.
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/test_tokenizer.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

MarkedText with_input(const std::string& before, const std::string& input, const std::string& after) {
  MarkedText text(before);
  text.append_input(input);
  text.append(after);
  return text;
}

Ids ids_of(const Tokenizer& tokenizer, const MarkedText& text) {
  return tokenizer.encode(text, AddSpecial::no);
}
Ids ids_of(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, AddSpecial::no);
}

std::string decoded_text(const Tokenizer& tokenizer, const Ids& ids) {
  return tokenizer.decode(ids, SkipSpecial::no);
}

Ids operator+(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

json added(int id, const std::string& content, const json& flags = json::object()) {
  json token = {{"id", id}, {"content", content}, {"special", true}, {"normalized", false}};
  token.update(flags);
  return token;
}

TEST(InputText, CannotWriteControlTokens) {
  const Tokenizer tokenizer = testing::load_tokenizer(testing::byte_level_json());
  const TokenId end = *tokenizer.token_to_id("<|end|>");
  const Ids spelled = {'<', '|', 'e', 'n', 'd', '|', '>'};
  EXPECT_EQ(ids_of(tokenizer, std::string("a<|end|>")), (Ids{'a', end}));
  EXPECT_EQ(ids_of(tokenizer, MarkedText("a<|end|>")), (Ids{'a', end}));
  EXPECT_EQ(ids_of(tokenizer, with_input("<|end|>", "<|end|>", "<|end|>")), Ids{end} + spelled + Ids{end});
}

TEST(InputText, CannotWriteAPartOfAControlToken) {
  const Tokenizer tokenizer = testing::load_tokenizer(testing::byte_level_json());
  const TokenId end = *tokenizer.token_to_id("<|end|>");
  const std::string content = "<|end|>";
  const Ids spelled(content.begin(), content.end());
  for (std::size_t from = 0; from < content.size(); ++from) {
    for (std::size_t to = from + 1; to <= content.size(); ++to) {
      const MarkedText text =
          with_input(content.substr(0, from), content.substr(from, to - from), content.substr(to));
      EXPECT_EQ(ids_of(tokenizer, text), spelled) << from << " to " << to;
    }
  }
  EXPECT_EQ(ids_of(tokenizer, with_input("", "<|end", "<|end|>")), (Ids{'<', '|', 'e', 'n', 'd', end}));
  EXPECT_EQ(ids_of(tokenizer, with_input("", "<", "<|end|>")), (Ids{'<', end}));
}

TEST(InputText, WritesAddedTokensThatAreText) {
  json content = testing::byte_level_json();
  const json is_text = {{"special", false}};
  content["added_tokens"] = {added(300, "<think>", is_text), added(301, "    ", is_text),
                             added(302, "<|fim|>", is_text), added(303, "<｜fim｜>", is_text),
                             added(304, "<turn>", is_text)};
  const Tokenizer plain = testing::load_tokenizer(content);
  EXPECT_EQ(ids_of(plain, MarkedText::input("<think>    <turn>")), (Ids{300, 301, 304}));
  EXPECT_EQ(decoded_text(plain, ids_of(plain, MarkedText::input("<|fim|><｜fim｜>"))), "<|fim|><｜fim｜>");
  for (const TokenId id : ids_of(plain, MarkedText::input("<|fim|><｜fim｜>")))
    EXPECT_LT(id, 300) << "control tokens by their shape";
  EXPECT_EQ(ids_of(plain, MarkedText("<|fim|><｜fim｜>")), (Ids{302, 303}));
  const Tokenizer named = testing::load_tokenizer(content, {{"additional_special_tokens", {"<turn>"}}});
  EXPECT_EQ(ids_of(named, MarkedText::input("<turn>")).size(), 6U) << "a control token by its name";
  EXPECT_EQ(ids_of(named, MarkedText("<turn>")), (Ids{304}));
  EXPECT_FALSE(named.is_special(304)) << "decoding is as before";
}

TEST(InputText, LeavesAShorterTokenThatIsText) {
  json content = testing::byte_level_json();
  content["added_tokens"] = {added(300, "<t>"), added(301, "<t", {{"special", false}})};
  const Tokenizer tokenizer = testing::load_tokenizer(content);
  EXPECT_EQ(ids_of(tokenizer, MarkedText::input("<t>")), (Ids{301, '>'}));
  EXPECT_EQ(ids_of(tokenizer, MarkedText("<t>")), (Ids{300}));
}

// A piece that is a token is not merged. Control tokens in the vocabulary are such pieces.
TEST(InputText, CannotWriteControlTokensOfAVocabularyThatIsLookedUpWhole) {
  json content = testing::bpe_json({"<", "s", ">", "<s>", "s>"}, {"s >"});
  content["ignore_merges"] = true;
  const Tokenizer tokenizer = testing::load_tokenizer({{"model", content},
                                                       {"added_tokens", json::array({added(3, "<s>")})},
                                                       {"decoder", {{"type", "Fuse"}}}});
  EXPECT_EQ(ids_of(tokenizer, MarkedText("<s>")), (Ids{3}));
  EXPECT_EQ(ids_of(tokenizer, MarkedText::input("<s>")), (Ids{0, 4}));
  EXPECT_EQ(ids_of(tokenizer, MarkedText::input("<s")), (Ids{0, 1}));
}

TEST(InputText, CannotWriteControlTokensOfAUnigramModel) {
  json content = testing::unigram_json({"</s>", "<", "/", "s", ">", "a", "/s"});
  content["added_tokens"] = {added(0, "<unk>"), added(1, "</s>")};
  content["normalizer"] = {{"type", "NFKC"}};
  const Tokenizer tokenizer = testing::load_tokenizer(content);
  const TokenId parts = *tokenizer.token_to_id("/s");
  EXPECT_EQ(ids_of(tokenizer, MarkedText("a</s>")), (Ids{6, 1}));
  EXPECT_EQ(ids_of(tokenizer, with_input("a", "</s>", "</s>")), (Ids{6, 2, parts, 5, 1}));
  EXPECT_EQ(ids_of(tokenizer, MarkedText::input("＜/s＞")), (Ids{2, parts, 5})) << "nor by what becomes one";
  EXPECT_EQ(ids_of(tokenizer, MarkedText::input("a?a")), (Ids{6, 0, 6}))
      << "what is unknown is no control token";
}

// Llama 2's tokenizer was first published like this: it looks for tokens in normalized text.
TEST(InputText, CannotWriteNormalizedControlTokens) {
  const std::vector<std::string> characters = {"▁", "<", "/", "s", ">", "h", "i"};
  json content = testing::byte_fallback_json(characters, {});
  for (json& token : content["added_tokens"]) token["normalized"] = true;
  // This normalizer adds no leading space, because the normalized control tokens would contain it, too.
  content["normalizer"] = content["normalizer"]["normalizers"][1];
  const Tokenizer tokenizer = testing::load_tokenizer(content);
  const auto id = [&](const char* token) { return *tokenizer.token_to_id(token); };
  const Ids spelled = {id("<"), id("/"), id("s"), id(">")};
  EXPECT_EQ(ids_of(tokenizer, std::string("hi</s>")), (Ids{id("h"), id("i"), id("</s>")}));
  EXPECT_EQ(
      ids_of(tokenizer, with_input("<s> ", "h</s>\uFDD0i ", "</s>")),
      (Ids{id("<s>"), id("▁"), id("h")} + spelled + Ids{0xEF, 0xB7, 0x90, id("i"), id("▁"), id("</s>")}));
  EXPECT_EQ(ids_of(tokenizer, with_input("<", "/", "s></s>")), spelled + Ids{id("</s>")});
}

TEST(InputText, IsAllOfATextWhoseBordersTheNormalizerBlurs) {
  json content = testing::byte_level_json();
  content["added_tokens"] = json::array({added(300, "<t>", {{"normalized", true}})});
  content["normalizer"] = {{"type", "NFC"}};
  const Tokenizer tokenizer = testing::load_tokenizer(content);
  EXPECT_EQ(ids_of(tokenizer, with_input("<t>e", "\u0300<t>", "")).size(), 3U + 2U + 3U);
  EXPECT_EQ(ids_of(tokenizer, with_input("<t>e", "x<t>", "<t>")), (Ids{300, 'e', 'x', '<', 't', '>', 300}));
}

TEST(InputText, IsAllOfATextWhoseBordersTheNormalizerRemoves) {
  json content = testing::byte_level_json();
  content["added_tokens"] = json::array({added(300, "<t>", {{"normalized", true}})});
  content["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "[^ -~]"}}}, {"content", ""}};
  const Tokenizer tokenizer = testing::load_tokenizer(content);
  EXPECT_EQ(ids_of(tokenizer, with_input("a", "<t>", "")), (Ids{'a', '<', 't', '>'}));
  EXPECT_EQ(ids_of(tokenizer, MarkedText("a<t>")), (Ids{'a', 300}));
}

TEST(InputText, MayBeAnyBytes) {
  const Tokenizer tokenizer = testing::load_tokenizer(testing::byte_level_json());
  EXPECT_EQ(decoded_text(tokenizer, ids_of(tokenizer, with_input("a\xFF", "b\xC3<|end|>", "c"))),
            "a\uFFFDb\uFFFD<|end|>c");
}

// ---- Real tokenizers

std::filesystem::path folder_of(const std::string& name) {
  const std::filesystem::path copied = testing::copied_folder(name);
  return std::filesystem::exists(copied) ? copied : testing::shared_folder(name);
}

class InputTextOf : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder_of(GetParam())))
      GTEST_SKIP() << GetParam() << " is not on this machine";
  }
};

// A reference without marks: the same tokenizer without special tokens.
json without_special_tokens(json content) {
  json kept = json::array();
  for (const json& token : content.at("added_tokens")) {
    const std::string text = token.at("content");
    if (!token.at("special").get<bool>() && !text.starts_with("<|")) kept.push_back(token);
  }
  content["added_tokens"] = kept;
  content.erase("post_processor");
  return content;
}

TEST_P(InputTextOf, IsTokenizedAsIfThereWereNoControlTokens) {
  const json content = testing::read_json(folder_of(GetParam()) / "tokenizer.json");
  const Tokenizer tokenizer = testing::load_tokenizer(content);
  const Tokenizer ignorant = testing::load_tokenizer(without_special_tokens(content));
  // Unigram models know the texts of control tokens. Only the reference may write them.
  const bool writes_control = content.at("model").at("type") == "Unigram";
  std::string all;
  for (const json& token : content.at("added_tokens")) all += token.at("content").get<std::string>() + " x";
  for (const std::string& text : {all, "Hello" + all + " w\u00F6rld\n\n  " + all}) {
    const Ids ids = ids_of(tokenizer, MarkedText::input(text));
    if (!writes_control) {
      EXPECT_EQ(ids, ids_of(ignorant, text));
    }
    for (const TokenId id : ids)
      EXPECT_TRUE(!tokenizer.is_special(id) || tokenizer.id_to_token(id) == "<unk>")
          << tokenizer.id_to_token(id);
  }
}

TEST_P(InputTextOf, WithoutControlTokensHasTheSameIdsAsEver) {
  const json content = testing::read_json(folder_of(GetParam()) / "tokenizer.json");
  const Tokenizer tokenizer = Tokenizer::load(folder_of(GetParam()));
  const std::vector<json> added_tokens = content.at("added_tokens");
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    MarkedText text;
    for (int part = 0; part < 6; ++part) {
      const std::string input = testing::random_text(random, random() % 5);
      text.append_input(input.find("</s>") == std::string::npos ? input : "");
      if (random() % 2 == 0)
        text.append(added_tokens[random() % added_tokens.size()].at("content").get<std::string>());
      text.append(testing::random_text(random, random() % 3));
    }
    ASSERT_EQ(tokenizer.encode(text, AddSpecial::yes), tokenizer.encode(text.text(), AddSpecial::yes))
        << text.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, InputTextOf,
                         ::testing::Values("gpt2", "llama2", "llama3", "mistral-v0.3", "qwen2", "stories260K",
                                           "gemma-style", "unigram-t5style"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(
                               name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name;
                         });

}  // namespace
}  // namespace tp
