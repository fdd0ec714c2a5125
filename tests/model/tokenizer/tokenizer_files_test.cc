// Tokenizers in files other than tokenizer.json, and the additions of the configuration.
#include "model/tokenizer/tokenizer_files.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::error_or_none;
using Ids = std::vector<TokenId>;

json added_token(const std::string& content, bool special) {
  return {{"content", content}, {"special", special}, {"normalized", false}};
}

TEST(AddedTokensDecoder, AddsTokensAndSaysWhichAreSpecial) {
  const json content = testing::byte_level_json();  // <|end|> is 256
  const json config = {{"added_tokens_decoder",
                        {{"256", added_token("<|end|>", false)}, {"300", added_token("<tool>", true)}}}};
  const Tokenizer tokenizer = testing::load_tokenizer(content, config);
  EXPECT_EQ(tokenizer.encode("a<tool><|end|>", AddSpecial::no), (Ids{'a', 300, 256}));
  EXPECT_EQ(tokenizer.vocab_size(), 301U);
  EXPECT_EQ(tokenizer.decode(Ids{'a', 300, 256}, SkipSpecial::yes), "a<|end|>");
}

TEST(AddedTokensDecoder, HasPossibleIds) {
  const auto error_with = [](const std::string& id, const json& token) {
    return error_or_none<CheckpointError>([&] {
      testing::load_tokenizer(testing::byte_level_json(), {{"added_tokens_decoder", {{id, token}}}});
    });
  };
  const auto expect = [](const std::string& error, const std::string& part) { EXPECT_CONTAINS(error, part); };
  for (const char* id : {"x", "-1", "99999999", "3x", ""})
    expect(error_with(id, added_token("<tool>", true)), "expected token ids from 0 to");
  expect(error_with("300", 3), "added_tokens_decoder.300");
}

TEST(SpecialTokens, AreNamedByTheConfiguration) {
  json content = testing::byte_level_json({"< s", "<s >"});  // 256 is "<s", 257 "<s>"
  content["added_tokens"] = json::array();
  EXPECT_EQ(testing::load_tokenizer(content).decode(Ids{257, 'a'}, SkipSpecial::yes), "<s>a");
  for (const json& config : {json{{"bos_token", "<s>"}}, json{{"pad_token", {{"content", "<s>"}}}},
                             json{{"additional_special_tokens", {"<s>"}}}}) {
    const Tokenizer tokenizer = testing::load_tokenizer(content, config);
    EXPECT_EQ(tokenizer.decode(Ids{257, 'a'}, SkipSpecial::yes), "a") << config;
    EXPECT_EQ(tokenizer.encode("x<s>y", AddSpecial::no), (Ids{'x', 257, 'y'})) << config;
  }
}

// Writes the bytes of byte-level BPE, and merges up to "hello".
void write_hello(const test::TemporaryDirectory& folder, const json& config) {
  const std::vector<std::string> merges = {"h e", "l l", "he ll", "hell o"};
  folder.write("vocab.json", testing::byte_level_json(merges)["model"]["vocab"].dump());
  folder.write("merges.txt", "#version: 0.2\nh e\nl l\nhe ll\nhell o\n");
  folder.write("tokenizer_config.json", config.dump());
}

TEST(AddedTokensFile, AddsTokensToVocabularyFiles) {
  const test::TemporaryDirectory folder;
  write_hello(folder, {{"tokenizer_class", "GPT2Tokenizer"}, {"eos_token", "<|im_end|>"}});
  folder.write("added_tokens.json", R"({"<|im_end|>": 260, "<tool>": 262})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("hello<|im_end|><tool>", AddSpecial::no), (Ids{259, 260, 262}));
  EXPECT_EQ(tokenizer.decode(Ids{259, 260, 262}, SkipSpecial::yes), "hello<tool>");
}

TEST(AddedTokensFile, AddsTokensToEveryOtherFormat) {
  const test::TemporaryDirectory folder;
  folder.write("tokenizer.json", testing::byte_level_json().dump());  // <|end|> is 256
  folder.write("added_tokens.json", R"({"<tool>": 300, "<|end|>": 256})");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("a<tool><|end|>", AddSpecial::no), (Ids{'a', 300, 256}));
  const test::TemporaryDirectory pieces;
  std::filesystem::copy_file(testing::copied_folder("gemma-style") / "tokenizer.model",
                             pieces.path() / "tokenizer.model");
  pieces.write("added_tokens.json", R"({"<tool>": 5000})");
  EXPECT_EQ(Tokenizer::load(pieces.path()).encode("<tool>", AddSpecial::no).back(), 5000);
}

TEST(AddedTokensFile, IsOlderThanAddedTokensDecoder) {
  const test::TemporaryDirectory folder;
  write_hello(folder, {{"added_tokens_decoder", {{"260", added_token("<|im_end|>", true)}}}});
  folder.write("added_tokens.json", R"({"<|im_end|>": 270})");
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("<|im_end|>", AddSpecial::no), Ids{260});
}

TEST(AddedTokensFile, HasPossibleIdsAndTokens) {
  const auto error_with = [](const std::string& added) {
    const test::TemporaryDirectory folder;
    write_hello(folder, json::object());
    folder.write("added_tokens.json", added);
    return error_or_none<CheckpointError>([&] { Tokenizer::load(folder.path()); });
  };
  EXPECT_CONTAINS(error_with(R"({"<tool>": -1})"), "added_tokens.json: cannot use <tool>: found -1");
  EXPECT_CONTAINS(error_with("[]"), "expected an object");
  EXPECT_CONTAINS(error_with(R"({"<a>": 300, "<b>": 300})"),
                  "cannot use <b>: found id 300 a second time, expected a different id for every token");
  EXPECT_CONTAINS(error_with(json{{std::string(1025, 'a'), 300}}.dump()), "found a token of 1025 bytes");
}

TEST(AddedTokensFile, NormalizesOnlyTokensThatAreNotSpecial) {
  const test::TemporaryDirectory folder;
  json content = testing::byte_level_json();
  content["normalizer"] = {{"type", "Lowercase"}};
  folder.write("tokenizer.json", content.dump());
  folder.write("added_tokens.json", R"({"<EOS>": 300, "<TOOL>": 301})");
  folder.write("tokenizer_config.json", R"({"eos_token": "<EOS>"})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("a<EOS>", AddSpecial::no), (Ids{'a', 300}));
  EXPECT_EQ(tokenizer.encode("<eos>", AddSpecial::no), (Ids{'<', 'e', 'o', 's', '>'}));
  EXPECT_EQ(tokenizer.encode("<tool>", AddSpecial::no), Ids{301});
}

TEST(AddedTokensDecoder, HasEveryIdOnce) {
  const json config = {
      {"added_tokens_decoder", {{"300", added_token("<a>", true)}, {"0300", added_token("<b>", true)}}}};
  EXPECT_CONTAINS(
      error_or_none<CheckpointError>([&] { testing::load_tokenizer(testing::byte_level_json(), config); }),
      "id 300 a second time");
}

TEST(TokenizerFiles, SayThatALinkHasLostItsTarget) {
  const test::TemporaryDirectory folder;
  std::filesystem::create_symlink("../blobs/gone", folder.path() / "tokenizer.json");
  EXPECT_CONTAINS(error_or_none<CheckpointError>([&] { holds_tokenizer(folder.path()); }),
                  "found a link to ../blobs/gone");
}

// A pointer file would give a vocabulary of three words.
TEST(TokenizerFiles, DescribeFilesThatAreNotVocabularies) {
  const std::pair<const char*, const char*> other_files[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "found a Git LFS pointer"},
      {"<!DOCTYPE html><html>", "found a web page"}};
  for (const auto& [bytes, found] : other_files) {
    for (const char* const name :
         {"tokenizer.json", "tekken.json", "tiktoken.model", "rwkv_vocab_v20230424.txt", "tokenizer.model",
          "spiece.model", "vocab.txt", "merges.txt", "source.spm"}) {
      const test::TemporaryDirectory folder;
      folder.write("vocab.json", R"({"a": 0})");
      folder.write(name, bytes);
      const std::string error = error_or_none<CheckpointError>([&] { load_tokenizer_parts(folder.path()); });
      EXPECT_CONTAINS(error, std::string(name) + ": expected a");
      EXPECT_CONTAINS(error, found);
    }
  }
}

class VocabularyFilesOf : public ::testing::TestWithParam<const char*> {};

TEST_P(VocabularyFilesOf, GiveTheIdsOfTokenizerJson) {
  const std::filesystem::path source = testing::shared_folder(GetParam());
  if (!std::filesystem::exists(source)) GTEST_SKIP() << source << " is not on this machine";
  const json model = testing::read_json(source / "tokenizer.json")["model"];
  std::string merges = "#version: 0.2\n";
  for (const json& merge : model["merges"])
    merges += (merge.is_string() ? merge.get<std::string>()
                                 : merge[0].get<std::string>() + " " + merge[1].get<std::string>()) +
              "\n";
  const test::TemporaryDirectory folder;
  folder.write("vocab.json", model["vocab"].dump());
  folder.write("merges.txt", merges);
  folder.write("tokenizer_config.json", testing::read_json(source / "tokenizer_config.json").dump());
  EXPECT_TRUE(holds_tokenizer(folder.path()));
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  const json expected = testing::read_json(source / "expected.json");
  for (const json& c : expected.at("cases"))
    EXPECT_EQ(json(tokenizer.encode(c["text"].get<std::string>(), AddSpecial::no)), c["ids"]) << c["text"];
}

INSTANTIATE_TEST_SUITE_P(ByteLevel, VocabularyFilesOf, ::testing::Values("gpt2", "qwen2"),
                         [](const auto& info) { return std::string(info.param); });

TEST(VocabularyFiles, ExplainErrors) {
  const auto error_with = [](const std::string& vocab, const std::string& merges) {
    const test::TemporaryDirectory folder;
    folder.write("vocab.json", vocab);
    folder.write("merges.txt", merges);
    return error_or_none<CheckpointError>([&] { Tokenizer::load(folder.path()); });
  };
  const auto expect = [](const std::string& error, const std::string& part) { EXPECT_CONTAINS(error, part); };
  EXPECT_EQ(error_with(R"({"a": 0, "b": 1, "ab": 2})", "#version: 0.2\r\na b\r\n"), "no error");
  expect(error_with(R"({"a": 0, "b": 0})", ""), "id 0 a second time");
  expect(error_with(R"({"a": 0})", "a b\n"), "merge 0 is 'a b', expected two tokens of the vocabulary");
  expect(error_with(R"({"a": 0, "b": 1})", "a b\n"), "merge 0 is 'a b', expected two tokens");
  expect(error_with(R"({"a": -1})", ""), "vocab.json: cannot use a: found -1");
  expect(error_with("[]", ""), "expected an object");
  expect(error_with("{}", ""), "the vocabulary has 0 tokens");
}

TEST(SentencePiece, RecognisesTokensNamedInTheFoldersConfiguration) {
  const std::filesystem::path source = testing::copied_folder("gemma-style");
  const test::TemporaryDirectory folder;
  for (const char* file : {"tokenizer.model", "tokenizer_config.json"})
    std::filesystem::copy_file(source / file, folder.path() / file);
  EXPECT_TRUE(holds_tokenizer(folder.path()));
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  const Tokenizer alone = Tokenizer::load(source / "tokenizer.model");
  const Tokenizer reference = Tokenizer::load(source);
  const json expected = testing::read_json(source / "expected.json");
  for (const json& c : expected.at("cases")) {
    const std::string text = c["text"];
    EXPECT_EQ(json(tokenizer.encode(text, AddSpecial::yes)), c["ids_with_special"]) << c["text"];
    EXPECT_EQ(tokenizer.decode(c["ids_with_special"].get<Ids>(), SkipSpecial::yes),
              c["decoded_skip_special"]);
  }
  EXPECT_EQ(tokenizer.bos_id(), reference.bos_id());
  EXPECT_EQ(tokenizer.eos_id(), reference.eos_id());
  EXPECT_EQ(alone.encode("a<eos>", AddSpecial::yes).back() == *alone.eos_id(), false) << "text is text";
}

TEST(SentencePiece, ExplainsErrors) {
  const test::TemporaryDirectory folder;
  for (const char* content : {"", "x", "\x0a\xff\xff\xff\xff\x0f", "{}"}) {
    folder.write("tokenizer.model", content);
    const std::string error = error_or_none<CheckpointError>([&] { Tokenizer::load(folder.path()); });
    EXPECT_CONTAINS(error, "tokenizer.model: ");
  }
  const std::string missing =
      error_or_none<CheckpointError>([&] { Tokenizer::load(folder.path() / "other.model"); });
  EXPECT_CONTAINS(missing, "other.model: no such file");
}

}  // namespace
}  // namespace tp
