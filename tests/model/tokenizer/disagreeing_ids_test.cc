// Added tokens whose ids disagree with the vocabulary or with another list.
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;

json listed(int id, const std::string& content, bool lstrip = false) {
  return {{"id", id}, {"content", content}, {"special", true}, {"normalized", false}, {"lstrip", lstrip}};
}

// Compilers differ in whether braces around one json value copy it or make an array of it.
json list(const std::vector<json>& values) { return values; }
json object(const std::map<std::string, json>& members) { return members; }

// The vocabulary has the ids 0 to 256, of which 97 is "a" and 256 "ab". <|end|> is 257.
struct DisagreeingIds {
  const char* about;
  json added;       // after <|end|> in tokenizer.json
  json decoder;     // added_tokens_decoder
  json added_file;  // added_tokens.json
  std::string token;
  TokenId expected;
};

// AddedVocabulary::add_tokens in the library's added_vocabulary.rs ignores ids in files. It uses the id of a
// known token, or else the next id after the vocabulary and the tokens added so far.
const DisagreeingIds kDisagreeingIds[] = {
    {"a token of the vocabulary keeps its id", list({listed(300, "ab")}), {}, {}, "ab", 256},
    {"the id of another token is not taken", list({listed(97, "<tool>")}), {}, {}, "<tool>", 258},
    {"its owner keeps it", list({listed(97, "<tool>")}), {}, {}, "a", 97},
    {"an id twice is the first token's", list({listed(257, "<x>")}), {}, {}, "<|end|>", 257},
    {"and the second token gets the next", list({listed(257, "<x>")}), {}, {}, "<x>", 258},
    {"a token twice keeps its first id", list({listed(300, "<x>"), listed(301, "<x>")}), {}, {}, "<x>", 300},
    {"a later list does not move a token", {}, object({{"300", listed(0, "<|end|>")}}), {}, "<|end|>", 257},
    {"nor a token of the vocabulary", {}, object({{"300", listed(0, "ab")}}), {}, "ab", 256},
    {"nor takes its id", {}, object({{"97", listed(0, "<tool>")}}), {}, "<tool>", 258},
    {"nor the id of an added token", {}, object({{"257", listed(0, "<fin>")}}), {}, "<fin>", 258},
    {"which keeps it", {}, object({{"257", listed(0, "<fin>")}}), {}, "<|end|>", 257},
    {"new ids follow the order of ids",
     {},
     object({{"10", listed(0, "<a>")}, {"9", listed(0, "<b>")}}),
     {},
     "<b>",
     258},
    {"and end with the largest",
     {},
     object({{"10", listed(0, "<a>")}, {"9", listed(0, "<b>")}}),
     {},
     "<a>",
     259},
    {"the oldest list is like the others", {}, {}, object({{"<tool>", 97}}), "<tool>", 258},
    {"also for the vocabulary's tokens", {}, {}, object({{"ab", 300}}), "ab", 256},
    {"also for added tokens", {}, {}, object({{"<|end|>", 300}}), "<|end|>", 257},
    {"an id that nobody has stays", list({listed(300, "<x>")}), {}, {}, "<x>", 300},
};

Tokenizer tokenizer_with(const DisagreeingIds& c) {
  const test::TemporaryDirectory folder;
  json content = testing::byte_level_json({"a b"});
  for (const json& added : c.added) content["added_tokens"].push_back(added);
  folder.write("tokenizer.json", content.dump());
  if (!c.decoder.is_null())
    folder.write("tokenizer_config.json", json{{"added_tokens_decoder", c.decoder}}.dump());
  if (!c.added_file.is_null()) folder.write("added_tokens.json", c.added_file.dump());
  return Tokenizer::load(folder.path());
}

TEST(AddedTokenIds, MatchTheTokenizersLibrary) {
  for (const DisagreeingIds& c : kDisagreeingIds) {
    SCOPED_TRACE(c.about);
    const Tokenizer tokenizer = tokenizer_with(c);
    EXPECT_EQ(tokenizer.token_to_id(c.token), c.expected);
    EXPECT_EQ(tokenizer.encode(c.token, AddSpecial::no), std::vector<TokenId>{c.expected});
    EXPECT_EQ(tokenizer.id_to_token(c.expected), c.token);
  }
}

TEST(AddedTokenIds, LeaveTheFlagsOfTheLaterListToTheToken) {
  const Tokenizer twice = tokenizer_with(
      {.about = "", .added = list({listed(257, "<|end|>", true)}), .token = "", .expected = 0});
  EXPECT_EQ(twice.encode("a <|end|>", AddSpecial::no), (std::vector<TokenId>{'a', 257}));
  const Tokenizer decoder = tokenizer_with(
      {.about = "", .decoder = object({{"300", listed(0, "<|end|>", true)}}), .token = "", .expected = 0});
  EXPECT_EQ(decoder.encode("a <|end|>", AddSpecial::no), (std::vector<TokenId>{'a', 257}));
}

}  // namespace
}  // namespace tp
