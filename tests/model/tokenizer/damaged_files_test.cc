// Damaged or malicious tokenizer.json files. Each must give one error with four parts.
#include "model/files/file_notices.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;

// Returns the error of loading a sound tokenizer after `damage`.
std::string error_after(const std::function<void(json&)>& damage) {
  json content = testing::byte_level_json({"a b"});
  damage(content);
  return testing::error_of_loading(content.dump());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_parts(const std::string& error, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_TRUE(contains(error, part)) << "no '" << part << "' in: " << error;
}

TEST(DamagedTokenizer, IsSoundBeforeTheDamage) {
  EXPECT_NO_THROW(testing::load_tokenizer(testing::byte_level_json({"a b"})));
}

TEST(DamagedTokenizer, ErrorsNameFilePlaceFoundExpectedAndAdvice) {
  expect_parts(
      error_after([](json& j) { j["model"]["vocab"] = 3; }),
      {"tokenizer.json: cannot use model.vocab: found 3, expected an object; the file may be damaged"});
  expect_parts(error_after([](json& j) {
                 j["normalizer"] = {{"type", "Blur"}};
               }),
               {"cannot use normalizer: found type 'Blur', which tp-infer does not support yet, expected "
                "Sequence, NFC",
                "; use a model"});
}

TEST(DamagedTokenizer, IsRefusedWhenItIsNotJson) {
  const std::string sound = testing::byte_level_json().dump();
  for (const std::string& content :
       {std::string(), std::string("x"), sound.substr(0, sound.size() / 2), sound + "}",
        std::string("{\"a\":\"\xFF\"}"), std::string("{\"a\":\"\\ud800\"}"), std::string("\0\0\0", 3),
        std::string("{\"a\":1e999}"), std::string(1 << 20, '['), std::string(1 << 20, '{')})
    expect_parts(testing::error_of_loading(content),
                 {"tokenizer.json: cannot read the file: expected JSON, found: "});
}

TEST(DamagedTokenizer, IsRefusedWhenItIsOtherJson) {
  for (const char* content :
       {"null", "[]", "3", "\"x\"", "{}", R"({"model":null})", R"({"model":[]})", R"({"model":{}})"})
    expect_parts(testing::error_of_loading(content), {"tokenizer.json: cannot use ", "found ", "expected "});
}

TEST(DamagedTokenizer, IsRefusedWhenItNestsWithoutEnd) {
  constexpr int depth = 200'000;
  std::string arrays;
  for (int i = 0; i < depth; ++i) arrays += "[";
  for (int i = 0; i < depth; ++i) arrays += "]";
  expect_parts(testing::error_of_loading("{\"model\":" + arrays + "}"), {"nested deeper than 64 levels"});
  std::string sequences;
  for (int i = 0; i < 20; ++i) sequences += R"({"type":"Sequence","normalizers":[)";
  sequences += R"({"type":"NFC"})";
  for (int i = 0; i < 20; ++i) sequences += "]}";
  std::string content = testing::byte_level_json().dump();
  content.insert(1, "\"normalizer\":" + sequences + ",");
  expect_parts(testing::error_of_loading(content), {"sequences in sequences without end"});
}

// The library that wrote the file does this, too.
TEST(DamagedTokenizer, UsesTheLastIdOfADuplicateToken) {
  take_file_notices();
  std::string content = testing::byte_level_json().dump();
  const std::string vocabulary = "\"vocab\":{";
  content.insert(content.find(vocabulary) + vocabulary.size(), R"("a":300,)");
  const test::TemporaryDirectory folder;
  folder.write("tokenizer.json", content);
  EXPECT_EQ(Tokenizer::load(folder.path()).encode("a", AddSpecial::no), std::vector<TokenId>{'a'});
  const std::vector<std::string> notices = take_file_notices();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_CONTAINS(notices.front(), "tokenizer.json: an object has the key a twice");
}

TEST(DamagedTokenizer, IsRefusedForImpossibleIds) {
  for (const json& id : {json(-1), json(1 << 22), json(4294967296), json(18446744073709551615u), json(0.5),
                         json("7"), json(nullptr), json::array({1})}) {
    expect_parts(error_after([&](json& j) { j["model"]["vocab"]["zz"] = id; }), {"model.vocab", "found "});
    expect_parts(error_after([&](json& j) { j["added_tokens"][0]["id"] = id; }),
                 {"added_tokens[0]", "found "});
  }
  expect_parts(error_after([](json& j) { j["model"]["vocab"]["zz"] = 7; }), {"id 7 a second time"});
}

TEST(DamagedTokenizer, IsRefusedForImpossibleAddedTokens) {
  expect_parts(error_after([](json& j) { j["added_tokens"][0]["content"] = std::string(2000, 'x'); }),
               {"2000 bytes"});
  expect_parts(error_after([](json& j) { j["added_tokens"] = "x"; }), {"added_tokens", "a list"});
  expect_parts(error_after([](json& j) { j["added_tokens"][0] = 3; }), {"added_tokens[0]"});
  expect_parts(error_after([](json& j) { j["added_tokens"][0]["lstrip"] = 3; }), {"added_tokens[0].lstrip"});
}

TEST(DamagedTokenizer, IsRefusedForImpossibleMerges) {
  for (const json& merge :
       {json("a"), json("a b c"), json(""), json(3), json(nullptr), json::array({"a"}), json::array({"a", 3}),
        json::array({"a", "b", "c"}), json("a zz"), json("zz a"), json("a c"), json::array({"a", "c"})})
    expect_parts(error_after([&](json& j) { j["model"]["merges"].push_back(merge); }),
                 {"model.merges[1]", "found "});
  expect_parts(error_after([](json& j) { j["model"]["merges"] = json::object(); }),
               {"model.merges", "a list"});
  expect_parts(error_after([](json& j) { j["model"].erase("merges"); }), {"no 'merges' in it"});
}

TEST(DamagedTokenizer, IsRejectedForUnsupportedModels) {
  expect_parts(error_after([](json& j) { j["model"]["type"] = "Letters"; }),
               {"cannot use model: found type 'Letters'", "expected BPE, Unigram, WordPiece or WordLevel"});
  expect_parts(error_after([](json& j) { j["model"]["type"] = 3; }), {"model.type"});
  expect_parts(error_after([](json& j) { j["model"]["unk_token"] = "<nowhere>"; }), {"model.unk_token"});
  expect_parts(error_after([](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }),
               {"model.end_of_word_suffix"});
  expect_parts(error_after([](json& j) { j["model"]["continuing_subword_prefix"] = "##"; }),
               {"subword_prefix"});
  expect_parts(error_after([](json& j) { j["model"]["dropout"] = 0.1; }), {"model.dropout", "found 0.1"});
  expect_parts(error_after([](json& j) { j["model"]["fuse_unk"] = "yes"; }), {"model.fuse_unk"});
}

TEST(DamagedTokenizer, IsRejectedForUnsupportedParts) {
  for (const char* part : {"normalizer", "pre_tokenizer", "decoder", "post_processor"}) {
    expect_parts(error_after([&](json& j) {
                   j[part] = {{"type", "Nonsense"}};
                 }),
                 {std::string("cannot use ") + part + ": found type 'Nonsense'"});
    for (const json& value : {json(3), json::array(), json::object(), json("x"), json{{"type", 3}},
                              json{{"type", nullptr}}, json{{"type", "Sequence"}}})
      expect_parts(error_after([&](json& j) { j[part] = value; }), {std::string("cannot use ") + part});
  }
}

TEST(DamagedTokenizer, IsRefusedForPatternsThatDoNotCompile) {
  const auto error_of = [](const json& pattern) {
    return error_after([&](json& j) {
      j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}};
    });
  };
  expect_parts(error_of({{"Regex", "(a"}}),
               {"pre_tokenizer.pattern.Regex", "the pattern '(a' is wrong at 2: "});
  expect_parts(error_of({{"Regex", "[[:nonsense:]]"}}), {"[:nonsense:]"});
  expect_parts(error_of({{"Regex", std::string(100'000, '[')}}), {"pre_tokenizer.pattern.Regex"});
  expect_parts(error_of({{"Regex", std::string(100'000, '(')}}), {"pre_tokenizer.pattern.Regex"});
  expect_parts(error_of({{"Regex", "(?:a{1,65535}){1,65535}"}}), {"pre_tokenizer.pattern.Regex"});
  expect_parts(error_of("x"), {"pre_tokenizer.pattern"});
  expect_parts(error_of(json::object()), {"no 'Regex' in it"});
}

TEST(DamagedTokenizer, IsRefusedForOtherWrongMembers) {
  expect_parts(
      error_after([](json& j) {
        j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Nowhere"}};
      }),
      {"pre_tokenizer.behavior", "'Nowhere'", "MergedWithNext"});
  for (const json& mark : {json(""), json("ab"), json(3)})
    expect_parts(error_after([&](json& j) {
                   j["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", mark}};
                 }),
                 {"pre_tokenizer.replacement"});
  expect_parts(error_after([](json& j) {
                 j["decoder"] = {{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}};
               }),
               {"decoder.start", "found -1"});
}

TEST(DamagedTokenizer, IsRefusedForADamagedConfiguration) {
  EXPECT_THROW(testing::load_tokenizer(testing::byte_level_json(), {{"bos_token", 3}}), CheckpointError);
  EXPECT_THROW(testing::load_tokenizer(testing::byte_level_json(), {{"bos_token", json::object()}}),
               CheckpointError);
  EXPECT_THROW(testing::load_tokenizer(testing::byte_level_json(), json::array({1})), CheckpointError);
}

TEST(MissingTokenizer, GivesAnErrorThatNamesThePath) {
  const test::TemporaryDirectory folder;
  for (const std::filesystem::path& path :
       {folder.path(), folder.path() / "nowhere", std::filesystem::path(std::string(10'000, 'x')),
        std::filesystem::path("")}) {
    expect_parts(test::error_of<CheckpointError>([&] { Tokenizer::load(path); }),
                 {path.string() + ": cannot ", "expected ", "found"});
  }
}

// Changes every byte of a sound file in turn. The result must be a tokenizer or a CheckpointError.
TEST(DamagedTokenizer, NeverCrashesOnASingleWrongByte) {
  json content = testing::byte_fallback_json({"▁", "a", "b"}, {"a b", "▁ a"});
  for (int byte = 4; byte < 256; ++byte) content["model"]["vocab"].erase(fmt::format("<0x{:02X}>", byte));
  const std::string sound = content.dump();
  const test::TemporaryDirectory folder;
  int refused = 0;
  for (std::size_t place = 0; place < sound.size(); ++place) {
    for (const char wrong : {'\0', '"', '9', '{', ' ', 'x'}) {
      std::string damaged = sound;
      damaged[place] = wrong;
      folder.write("tokenizer.json", damaged);
      try {
        const Tokenizer tokenizer = Tokenizer::load(folder.path());
        tokenizer.decode(tokenizer.encode("ab a\xFF", AddSpecial::yes), SkipSpecial::yes);
      } catch (const CheckpointError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tp
