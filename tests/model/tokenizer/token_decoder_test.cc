#include "model/tokenizer/steps/token_decoder.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/naive_decoder.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tp/error.h"

#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Tokens = std::vector<std::string>;

std::string decoded(const json& part, const Tokens& tokens) {
  TokenDecoder decoder = TokenDecoder::from_json(testing::node_of(part));
  std::string text;
  for (const std::string& token : tokens) decoder.push(token, text);
  decoder.finish(text);
  return text;
}

json sequence(const std::vector<json>& parts) { return {{"type", "Sequence"}, {"decoders", parts}}; }
json replace(const std::string& what, const std::string& by) {
  return {{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", by}};
}
json strip(const std::string& character, int start, int stop) {
  return {{"type", "Strip"}, {"content", character}, {"start", start}, {"stop", stop}};
}
const json fuse = {{"type", "Fuse"}};
const json byte_fallback = {{"type", "ByteFallback"}};
const json byte_level = {{"type", "ByteLevel"}};

TEST(TokenDecoder, PutsSpacesBetweenTokensByDefault) {
  TokenDecoder decoder;
  std::string text;
  for (const char* token : {"a", "b", "c"}) decoder.push(token, text);
  decoder.finish(text);
  EXPECT_EQ(text, "a b c");
}

TEST(ByteLevelDecoder, JoinsBytesOfSeveralTokensToCharacters) {
  EXPECT_EQ(decoded(byte_level, {"ĠHi", "Ã", "©"}), " Hié");
  EXPECT_EQ(decoded(byte_level, {"ä", "¸"}), "�");
  EXPECT_EQ(decoded(byte_level, {"ä", "a", "¸"}), "�a�");
  EXPECT_EQ(decoded(byte_level, {"<|x y|>", "Ġ"}), "<|x y|> ");
}

TEST(ByteFallbackDecoder, MakesCharactersOfRunsOfBytes) {
  EXPECT_EQ(decoded(byte_fallback, {"<0xE5>", "<0x8F>", "<0xAB>", "a"}), "叫a");
  EXPECT_EQ(decoded(byte_fallback, {"<0x61>"}), "a");
  EXPECT_EQ(decoded(byte_fallback, {"<0xE5>", "<0x8F>", "a"}), "��a");
  EXPECT_EQ(decoded(byte_fallback, {"<0x61>", "<0xFF>", "<0x61>", "b", "<0x61>"}), "���ba");
  EXPECT_EQ(decoded(byte_fallback, {"<0xG1>", "<0x1>", "<0x 1>"}), "<0xG1><0x1><0x 1>");
}

TEST(StripDecoder, StripsEveryTokenUntilTheyAreJoined) {
  EXPECT_EQ(decoded(strip(" ", 1, 0), {" a", "  b"}), "a b");
  EXPECT_EQ(decoded(strip("x", 1, 2), {"xxaxxx", "x"}), "xax");
  EXPECT_EQ(decoded(sequence({fuse, strip(" ", 1, 0)}), {" a", " b"}), "a b");
  EXPECT_EQ(decoded(sequence({fuse, strip(" ", 2, 2)}), {" ", " ", " a ", " ", " "}), " a ");
}

TEST(ReplaceDecoder, SeesMatchesAcrossTokensOnlyWhenTheyAreJoined) {
  EXPECT_EQ(decoded(replace("ab", "x"), {"a", "b", "ab"}), "abx");
  EXPECT_EQ(decoded(sequence({fuse, replace("ab", "x")}), {"a", "b", "ab", "a"}), "xxa");
  EXPECT_EQ(decoded(sequence({fuse, replace("aab", "x")}), {"a", "a", "a", "b"}), "ax");
}

TEST(ReplaceDecoder, ReplacesPatternsInTokens) {
  const json pattern = {{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", "x"}};
  EXPECT_EQ(decoded(pattern, {"aab", "a"}), "xbx");
  EXPECT_THROW(TokenDecoder::from_json(testing::node_of(sequence({fuse, pattern}))), CheckpointError);
}

TEST(MetaspaceDecoder, DropsTheMarksOfTheFirstToken) {
  EXPECT_EQ(decoded({{"type", "Metaspace"}, {"replacement", "▁"}}, {"▁Hey", "▁you▁"}), "Hey you ");
  EXPECT_EQ(
      decoded({{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "never"}}, {"▁Hey", "▁you"}),
      " Hey you");
}

json word_piece(bool cleans_up) { return {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", cleans_up}}; }
const json word_end = {{"type", "BPEDecoder"}, {"suffix", "</w>"}};
json ctc(bool cleans_up) {
  return {{"type", "CTC"}, {"pad_token", "<pad>"}, {"word_delimiter_token", "|"}, {"cleanup", cleans_up}};
}

TEST(WordPieceDecoder, PutsSpacesBetweenWords) {
  EXPECT_EQ(decoded(word_piece(false), {"##uelo", "Ara", "##\u00FAj", "##o", "No", "##guera"}),
            "##uelo Ara\u00FAjo Noguera");
  EXPECT_EQ(decoded(word_piece(false), {"I", "do", "n't", "####", "."}), "I do n't## .");
}

TEST(WordPieceDecoder, CleansUpWithinOneToken) {
  EXPECT_EQ(decoded(word_piece(true), {"I", "do", "n't", ",", "he", "'s", "?", "!", "'"}),
            "I don't, he's?! '");
  EXPECT_EQ(decoded(word_piece(true), {"a", "b . c ' d do not"}), "a b. c'd don't");
}

TEST(WordEndDecoder, MakesSpacesOfTheEndsOfWords) {
  EXPECT_EQ(decoded(word_end, {"My</w>", "na", "me</w>", "is</w>", "</w>"}), "My name is ");
  EXPECT_EQ(decoded(word_end, {"a</w>b", "c</w>d</w>"}), "a bcd");
  EXPECT_EQ(decoded(word_end, {}), "");
}

TEST(WordEndDecoder, SettlesAWordAndStillSeparatesTheNext) {
  for (const bool goes_on : {false, true}) {
    TokenDecoder decoder = TokenDecoder::from_json(testing::node_of(word_end));
    std::string text;
    decoder.push("a</w>", text);
    decoder.flush(text);
    EXPECT_EQ(text, "a");
    if (goes_on) decoder.push("b</w>", text);
    decoder.finish(text);
    EXPECT_EQ(text, goes_on ? "a b" : "a");
  }
}

TEST(CtcDecoder, CountsRepeatedTokensOnce) {
  EXPECT_EQ(
      decoded(ctc(true), {"<pad>", "<pad>", "h", "e", "e", "l", "l", "<pad>", "l", "o", "o", "o", "<pad>"}),
      "hello");
  EXPECT_EQ(decoded(ctc(true), {"h", "i", "|", "|", "<pad>", "|", "y", "o", "u", "|"}), "hi  you ");
  EXPECT_EQ(decoded(ctc(false), {"h", "i", "|", "|", "y"}), "hi|y");
}

TEST(WordDecoders, AreRejectedAfterAStepThatJoinsTokens) {
  for (const json& part : {word_piece(true), word_end, ctc(true)}) {
    EXPECT_CONTAINS(test::error_of<CheckpointError>([&] {
                      TokenDecoder::from_json(testing::node_of(sequence({fuse, part})));
                    }),
                    "after a decoder that joins all tokens")
        << part;
  }
  EXPECT_THROW(decoded({{"type", "BPEDecoder"}, {"suffix", ""}}, {}), CheckpointError);
  EXPECT_THROW(decoded({{"type", "WordPiece"}}, {}), CheckpointError);
}

TEST(TokenDecoder, SettlesAllButAnUnfinishedCharacter) {
  TokenDecoder decoder =
      TokenDecoder::from_json(testing::node_of(sequence({byte_fallback, fuse, strip(" ", 1, 1)})));
  std::string text;
  for (const char* token : {" a", "<0xC3>", "<0xA9>", "<0xC3>"}) decoder.push(token, text);
  EXPECT_EQ(text, "a");
  decoder.flush(text);
  EXPECT_EQ(text, "aé");
  decoder.push("<0xA9>", text);
  decoder.finish(text);
  EXPECT_EQ(text, "aéé");
}

// Tests every order of steps, even orders that no tokenizer has.
TEST(TokenDecoder, MatchesWholeListsInParts) {
  const std::vector<json> steps = {
      fuse,
      byte_fallback,
      byte_level,
      replace("▁", " "),
      replace("ab", "ba"),
      replace("aab", ""),
      strip(" ", 1, 0),
      strip(" ", 2, 2),
      strip("a", 0, 1),
      json{{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}},
      word_piece(true),
      word_piece(false),
      word_end,
      ctc(true)};
  const Tokens tokens = {"▁a",    "▁",     " ",      "a",      "b",      "aab",    "é",    "Ġ",
                         "ä",     "¸",     "<0xC3>", "<0xA9>", "<0x20>", "<0xFF>", "</s>", "▁▁ab",
                         "  a  ", "##ing", "me</w>", "|",      "<pad>",  "."};
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<json> parts;
    bool is_joined = false;
    for (std::size_t i = 0, n = 1 + random() % 4; i < n; ++i) {
      const json& step = steps[random() % steps.size()];
      // The joined text is not a byte token. The streaming step gets it in chunks.
      if (is_joined && step["type"].get<std::string>().starts_with("Byte")) continue;
      // These are rejected.
      const bool is_of_words = step["type"] == "WordPiece" || step == word_end || step["type"] == "CTC";
      if (is_joined && is_of_words) continue;
      is_joined |= step == fuse || step == byte_level;
      parts.push_back(step);
    }
    Tokens list;
    for (std::size_t i = 0, n = random() % 12; i < n; ++i) list.push_back(tokens[random() % tokens.size()]);
    ASSERT_EQ(decoded(sequence(parts), list), testing::naive_decode(sequence(parts), list))
        << sequence(parts) << json(list);
  }
}

}  // namespace
}  // namespace tp
