// The flags of added tokens in every format of tokenizers. GGUF files: gguf_vocabulary_test.cc (reading) and
// embed_vocabulary_test.cc (writing).
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::TemporaryDirectory;

// A byte-level tokenizer in lower case. <m> is its added token 256, without flags.
json lower_case_json() {
  json content = testing::byte_level_json();
  content["normalizer"] = {{"type", "Lowercase"}};
  content["added_tokens"] = json::array({{{"id", 256}, {"content", "<m>"}, {"normalized", false}}});
  return content;
}

json flagged_object(const json& flags) {
  json token = {{"content", "<m>"}, {"normalized", false}};
  token.update(flags);
  return token;
}

void write_lower_case(const TemporaryDirectory& folder, const json& config) {
  folder.write("tokenizer.json", lower_case_json().dump());
  folder.write("tokenizer_config.json", config.dump());
}

// Writes a folder with the token <m> that has these flags in one of its lists.
using WriteFolder = void (*)(const TemporaryDirectory& folder, const json& flags);

struct ListFormat {
  const char* name;
  WriteFolder write;
  // Whether the flag can change tokens. BERT's pre-tokenizer removes white space. Byte-level files without
  // tokenizer.json have no normalizer, and SentencePiece's format finds tokens in unprocessed text.
  bool shows_white_space = true;
  bool shows_normalized = true;
};

const ListFormat kListFormats[] = {
    {"tokenizer.json",
     [](const TemporaryDirectory& folder, const json& flags) {
       json content = lower_case_json();
       content["added_tokens"][0].update(flags);
       folder.write("tokenizer.json", content.dump());
     }},
    {"added_tokens_decoder",
     [](const TemporaryDirectory& folder, const json& flags) {
       write_lower_case(folder, {{"added_tokens_decoder", {{"256", flagged_object(flags)}}}});
     }},
    {"token of tokenizer_config.json",
     [](const TemporaryDirectory& folder, const json& flags) {
       write_lower_case(folder, {{"mask_token", flagged_object(flags)}});
     }},
    {"list of tokenizer_config.json",
     [](const TemporaryDirectory& folder, const json& flags) {
       write_lower_case(folder, {{"additional_special_tokens", json::array({flagged_object(flags)})}});
     }},
    {"list of transformers 5",
     [](const TemporaryDirectory& folder, const json& flags) {
       write_lower_case(folder, {{"extra_special_tokens", json::array({flagged_object(flags)})}});
     }},
    {"named list of transformers 5",
     [](const TemporaryDirectory& folder, const json& flags) {
       write_lower_case(folder, {{"extra_special_tokens", {{"image_token", flagged_object(flags)}}}});
     }},
    {"special_tokens_map.json",
     [](const TemporaryDirectory& folder, const json& flags) {
       folder.write("tokenizer.json", lower_case_json().dump());
       folder.write("special_tokens_map.json", json{{"mask_token", flagged_object(flags)}}.dump());
     }},
    {"special_tokens_map.json of a token of the model",
     [](const TemporaryDirectory& folder, const json& flags) {
       json content = testing::byte_level_json({"< m", "<m >"});
       content["normalizer"] = {{"type", "Lowercase"}};
       content["added_tokens"] = json::array();
       content["model"]["merges"] = json::array();
       content["model"]["vocab"].erase("<m");
       content["model"]["vocab"]["<m>"] = 256;
       folder.write("tokenizer.json", content.dump());
       folder.write("special_tokens_map.json", json{{"mask_token", flagged_object(flags)}}.dump());
     }},
    {"special_tokens_map.json of a token of added_tokens.json",
     [](const TemporaryDirectory& folder, const json& flags) {
       json content = lower_case_json();
       content["added_tokens"] = json::array();
       folder.write("tokenizer.json", content.dump());
       folder.write("added_tokens.json", R"({"<m>": 256})");
       folder.write("special_tokens_map.json", json{{"mask_token", flagged_object(flags)}}.dump());
     }},
    {"vocab.json and merges.txt",
     [](const TemporaryDirectory& folder, const json& flags) {
       folder.write("vocab.json", testing::byte_level_json()["model"]["vocab"].dump());
       folder.write("merges.txt", "#version: 0.2\n");
       folder.write("tokenizer_config.json",
                    json{{"added_tokens_decoder", {{"256", flagged_object(flags)}}}}.dump());
     },
     true, false},
    {"vocab.txt",
     [](const TemporaryDirectory& folder, const json& flags) {
       folder.write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n##a\nb\n##b\n<\nm\n>\n<m>\n");
       folder.write("tokenizer_config.json", json{{"mask_token", flagged_object(flags)}}.dump());
     },
     false, true},
    {"tokenizer.model",
     [](const TemporaryDirectory& folder, const json& flags) {
       std::filesystem::copy_file(testing::copied_folder("gemma-style") / "tokenizer.model",
                                  folder.path() / "tokenizer.model");
       folder.write("tokenizer_config.json",
                    json{{"added_tokens_decoder", {{"9000", flagged_object(flags)}}}}.dump());
     },
     true, false},
};

// The ids of a text, with the token <m>.
struct EncodedMark {
  std::vector<TokenId> ids;
  bool has_token;
};

class FlagsIn {
 public:
  FlagsIn(const ListFormat& format, const json& flags) : tokenizer_(load(format, flags)) {}

  EncodedMark encode(const std::string& text) const {
    EncodedMark result{tokenizer_.encode(text, AddSpecial::no), false};
    result.has_token = std::ranges::find(result.ids, *tokenizer_.token_to_id("<m>")) != result.ids.end();
    return result;
  }
  bool strips_left() const { return encode("a <m>b").ids == encode("a<m>b").ids; }
  bool strips_right() const { return encode("a<m> b").ids == encode("a<m>b").ids; }
  bool is_single_word() const { return !encode("a<m>b").has_token && encode("a <m> b").has_token; }
  bool is_normalized() const { return encode("a<M>b").has_token; }

 private:
  static Tokenizer load(const ListFormat& format, const json& flags) {
    const TemporaryDirectory folder;
    format.write(folder, flags);
    return Tokenizer::load(folder.path());
  }

  Tokenizer tokenizer_;
};

TEST(AddedTokenFlags, AreHonouredInEveryList) {
  for (const ListFormat& format : kListFormats) {
    SCOPED_TRACE(format.name);
    const FlagsIn none(format, json::object());
    EXPECT_FALSE(none.is_single_word());
    EXPECT_TRUE(none.encode("a<m>b").has_token);
    EXPECT_TRUE(FlagsIn(format, {{"single_word", true}}).is_single_word());
    EXPECT_FALSE(none.is_normalized());
    EXPECT_EQ(FlagsIn(format, {{"normalized", true}}).is_normalized(), format.shows_normalized);
    EXPECT_TRUE(FlagsIn(format, {{"normalized", true}}).encode("a<m>b").has_token);
    EXPECT_EQ(none.strips_left() || none.strips_right(), !format.shows_white_space);
    EXPECT_TRUE(FlagsIn(format, {{"lstrip", true}}).strips_left());
    EXPECT_TRUE(FlagsIn(format, {{"rstrip", true}}).strips_right());
  }
}

// transformers reads the flags of tokens by name only if added_tokens_decoder does not have the token.
TEST(AddedTokenFlags, InAddedTokensDecoderTakePrecedence) {
  const TemporaryDirectory folder;
  write_lower_case(folder, {{"added_tokens_decoder", {{"256", flagged_object({{"lstrip", true}})}}},
                            {"mask_token", flagged_object({{"lstrip", false}, {"rstrip", true}})}});
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("a <m> b", AddSpecial::no), (std::vector<TokenId>{'a', 256, ' ', 'b'}));
}

// RobertaTokenizer's default for the mask, which the files do not contain.
TEST(AddedTokenFlags, LetRobertasMaskIncludeTheSpaceBeforeIt) {
  const TemporaryDirectory folder;
  json vocabulary = testing::byte_level_json()["model"]["vocab"];
  for (const char* token : {"<s>", "</s>", "<mask>"}) vocabulary[token] = vocabulary.size();
  folder.write("vocab.json", vocabulary.dump());
  folder.write("merges.txt", "#version: 0.2\n");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("a <mask> b", AddSpecial::no), (std::vector<TokenId>{'a', 258, ' ', 'b'}));
}

}  // namespace
}  // namespace tp
