// Compares Kimi's tiktoken.model with an independent implementation, which merges bytes by the rank of the
// merged token.
#include "model/tokenizer/tokenizer_files.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/naive_bpe.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

std::string to_base64(const std::string& bytes) {
  static const std::string kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    unsigned buffer = 0;
    for (std::size_t i = 0; i < 3; ++i)
      buffer = buffer << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0);
    const std::size_t left = bytes.size() - at;
    for (std::size_t i = 0; i < 4; ++i) text += i <= left ? kAlphabet[buffer >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

// All bytes, then tokens that merge two earlier tokens. The bytes of a Han character merge from the left.
const std::vector<std::string>& tokens_in_order() {
  static const std::vector<std::string> kTokens = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(255 - byte));
    for (const char* token : {"he", "th", "the",  " t", " the", "in", "ing", "'s", "12",  "123", "\xE4\xB8",
                              "中", "文", "中文", "  ", "\n\n", "re", "bc",  "ab", "abc", "bcd"})
      tokens.emplace_back(token);
    return tokens;
  }();
  return kTokens;
}

std::string tiktoken_file() {
  std::string file;
  for (std::size_t rank = 0; rank < tokens_in_order().size(); ++rank)
    file += fmt::format("{} {}\n", to_base64(tokens_in_order()[rank]), rank);
  return file;
}

// The ids of one word, by definition: merges the adjacent parts with the lowest rank first.
Ids merged(const std::string& word) {
  std::map<std::string, TokenId> ranks;
  for (const std::string& token : tokens_in_order()) ranks.emplace(token, static_cast<TokenId>(ranks.size()));
  if (ranks.contains(word)) return {ranks[word]};
  return testing::merged_by_rank(ranks, word);
}

Ids merged_words(const std::vector<std::string>& words) {
  Ids ids;
  for (const std::string& word : words) {
    for (const TokenId id : merged(word)) ids.push_back(id);
  }
  return ids;
}

const json kConfig = {{"added_tokens_decoder",
                       {{"277", {{"content", "[BOS]"}, {"special", true}}},
                        {"278", {{"content", "[EOS]"}, {"special", true}}},
                        {"279", {{"content", "<|im_end|>"}, {"special", true}}},
                        {"290", {{"content", "<|tool_call_begin|>"}, {"special", false}}}}},
                      {"bos_token", "[BOS]"},
                      {"eos_token", "[EOS]"},
                      {"tokenizer_class", "TikTokenTokenizer"}};

class Tiktoken : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("tiktoken.model", tiktoken_file());
    folder_.write("tokenizer_config.json", kConfig.dump());
  }

  std::string error_of(const std::string& file) {
    folder_.write("tiktoken.model", file);
    return test::error_or_none<CheckpointError>([&] { Tokenizer::load(folder_.path()); });
  }

  test::TemporaryDirectory folder_;
};

// Each text is given as the words that Kimi's pattern finds.
TEST_F(Tiktoken, MergesTheBytesOfWordsByTheRanksOfTheirUnions) {
  EXPECT_TRUE(holds_tokenizer(folder_.path()));
  const Tokenizer tokenizer = Tokenizer::load(folder_.path());
  const std::vector<std::vector<std::string>> texts = {
      {"the", " thing"},
      {"in", "中文", "in"},  // runs of Han characters are separate words
      {"中文", " ", "中", " the"},
      {"かな", "中", "ひ"},
      {"the's", " re'RE", " '", "S"},  // contractions belong to the word before
      {"123", "451", "2", " ", "12"},
      {"The", "Thing"},
      {" ", " the", "\n\n", "ab"},
      {"!!\n", " abcd", "!"},
      {"thé", " ÏN", " ï"},
      {"ab", "  \n", " ", " cd", "  "},
  };
  for (const std::vector<std::string>& words : texts) {
    std::string text;
    for (const std::string& word : words) text += word;
    EXPECT_EQ(tokenizer.encode(text, AddSpecial::yes), merged_words(words)) << text;
    EXPECT_EQ(tokenizer.decode(merged_words(words), SkipSpecial::yes), text);
  }
  // Merges "bc" first, then "abc".
  EXPECT_EQ(tokenizer.encode("abcd", AddSpecial::no), (Ids{275, 255 - 'd'}));
}

TEST_F(Tiktoken, HasNamedAndReservedControlTokens) {
  const Tokenizer tokenizer = Tokenizer::load(folder_.path());
  const std::size_t size = tokens_in_order().size();
  ASSERT_EQ(size, 277U);
  EXPECT_EQ(tokenizer.vocab_size(), size + 258);
  EXPECT_EQ(tokenizer.bos_id(), 277);
  EXPECT_EQ(tokenizer.eos_id(), 278);
  EXPECT_EQ(tokenizer.encode("in<|im_end|>in", AddSpecial::yes), (Ids{261, 279, 261}));
  EXPECT_EQ(tokenizer.encode("<|reserved_token_280|><|reserved_token_534|>", AddSpecial::no),
            (Ids{280, 534}));
  EXPECT_EQ(tokenizer.encode("<|reserved_token_279|>", AddSpecial::no),
            merged_words({"<|", "reserved", "_token", "_", "279", "|>"}));
  EXPECT_EQ(tokenizer.decode(Ids{261, 279, 290}, SkipSpecial::yes), "in<|tool_call_begin|>");
  EXPECT_EQ(tokenizer.encode(MarkedText::input("<|im_end|>"), AddSpecial::no),
            merged_words({"<|", "im", "_end", "|>"}));
}

TEST_F(Tiktoken, AFileAloneHasReservedTokensOnly) {
  const Tokenizer tokenizer = Tokenizer::load(folder_.path() / "tiktoken.model");
  EXPECT_EQ(tokenizer.encode("the<|reserved_token_277|>", AddSpecial::yes), (Ids{258, 277}));
  EXPECT_EQ(tokenizer.eos_id(), std::nullopt);
}

TEST_F(Tiktoken, ExplainsErrors) {
  const std::string good = tiktoken_file();
  const auto expect = [&](const std::string& file, const std::string& part) {
    const std::string error = error_of(file);
    EXPECT_CONTAINS(error, part);
  };
  expect(good + "\n\r\n", "no error");
  expect("", "expected a token for every byte, found none for 0;");
  expect(good + "aGV5",
         "line 278 must be 1 to 1024 bytes of a token in base64, a space and its rank, found 4 ");
  expect(good + "aGV5 ", "line 278 must be");
  expect(good + "aGV5 277x", "line 278 must be");
  expect(good + "aGV5 -1", "line 278 must be");
  expect(good + "aGV5 99999999999999999999", "line 278 must be");
  expect(good + " 277", "line 278 must be");
  expect(good + "a?V5 277", "line 278 must be");
  expect(good + to_base64(std::string(1025, 'x')) + " 277", "line 278 must be");
  expect(good + "aGV5 276", "line 278 has the rank 276 a second time, expected a different one");
  expect(good + "aGV5 279", "no token has the rank 277, expected one for every rank below 280");
  expect(good + "aGV5 2147483647", "line 278 has the rank 2147483647, expected less than ");
  expect(good + "aGU= 277", "expected different tokens, found two with the same bytes (\"he\")");
  expect(good.substr(0, good.size() / 2), "the file may be damaged, get it again");
  std::string without_a_byte = good;
  without_a_byte.replace(0, without_a_byte.find('\n'), "aGV5 0");
  expect(without_a_byte, "expected a token for every byte, found none for 255;");
}

}  // namespace
}  // namespace tp
