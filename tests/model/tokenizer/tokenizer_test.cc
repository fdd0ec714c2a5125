#include "model/tokenizer/tokenizer.h"

#include "model/tokenizer/text/utf8.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/naive_decoder.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <ctime>
#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

TEST(Tokenizer, EncodesBytesMergesAndSpecialTokens) {
  const Tokenizer tokenizer =
      testing::load_tokenizer(testing::byte_level_json({"h e", "l l", "he ll", "hell o"}));
  EXPECT_EQ(tokenizer.encode("hello<|end|>he", AddSpecial::no), (Ids{259, 260, 256}));
  EXPECT_EQ(tokenizer.encode("", AddSpecial::yes), Ids{});
  EXPECT_EQ(tokenizer.vocab_size(), 261u);
}

TEST(Tokenizer, DecodesEncodedTexts) {
  const Tokenizer byte_level = testing::load_tokenizer(testing::byte_level_json({"t h", "th e", "Ġ the"}));
  const Tokenizer fallback =
      testing::load_tokenizer(testing::byte_fallback_json({"▁", "a", "t"}, {"▁ t", "▁ ▁"}));
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    const std::string text = testing::random_text(random, random() % 20);
    std::string expected;
    utf8::append_repaired(expected, text);
    ASSERT_EQ(byte_level.decode(byte_level.encode(text, AddSpecial::yes), SkipSpecial::no), expected);
    // This tokenizer doesn't distinguish ▁ and space, and adds a space after special tokens.
    if (expected.find("▁") != std::string::npos || expected.find("</s>") != std::string::npos) continue;
    ASSERT_EQ(fallback.decode(fallback.encode(text, AddSpecial::no), SkipSpecial::no), expected);
  }
}

TEST(Tokenizer, TakesEachMaximalIllFormedPartForOneReplacementCharacter) {
  const Tokenizer tokenizer = testing::load_tokenizer(testing::byte_level_json());
  EXPECT_EQ(tokenizer.encode("a\xE4\xB8"
                             "b\xFF\xFF",
                             AddSpecial::no),
            tokenizer.encode("a�b��", AddSpecial::no));
}

TEST(Tokenizer, LeavesOutSpecialTokensIfAsked) {
  const Tokenizer tokenizer = testing::load_tokenizer(testing::byte_level_json());
  const Ids ids = {'h', 256, 'i'};
  // Ids of byte tokens are bytes.
  EXPECT_EQ(tokenizer.decode(ids, SkipSpecial::no), "h<|end|>i");
  EXPECT_EQ(tokenizer.decode(ids, SkipSpecial::yes), "hi");
}

TEST(Tokenizer, RefusesIdsOutsideOfTheVocabulary) {
  const Tokenizer tokenizer = testing::load_tokenizer(testing::byte_level_json());
  for (const TokenId id : {-1, 257, 1 << 30}) {
    EXPECT_EQ(test::error_of<RequestError>([&] { tokenizer.decode(Ids{id}, SkipSpecial::yes); }),
              "cannot decode token id " + std::to_string(id) +
                  ": expected the id of a token, of which the largest is 256; the ids may come from another "
                  "model's tokenizer")
        << id;
  }
}

TEST(Tokenizer, RowsOfPaddingHaveNoText) {
  Tokenizer tokenizer = testing::load_tokenizer(testing::byte_level_json());  // 257 tokens
  tokenizer.pad_to(260);
  EXPECT_EQ(tokenizer.decode(Ids{'h', 259, 'i', 257}, SkipSpecial::no), "hi");
  EXPECT_THROW(tokenizer.decode(Ids{'h', 260}, SkipSpecial::no), RequestError);
  EXPECT_THROW(tokenizer.decode(Ids{-1}, SkipSpecial::no), RequestError);
}

TEST(Tokenizer, KnowsTokensByTextAndId) {
  const Tokenizer tokenizer = testing::load_tokenizer(testing::byte_level_json({"Ġ a"}));
  EXPECT_EQ(tokenizer.token_to_id("Ġa"), 256);
  EXPECT_EQ(tokenizer.token_to_id("<|end|>"), 257);
  EXPECT_EQ(tokenizer.token_to_id("nowhere"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(256), "Ġa");
  EXPECT_EQ(tokenizer.id_to_token(257), "<|end|>");
  EXPECT_TRUE(tokenizer.is_special(257));
  EXPECT_FALSE(tokenizer.is_special(256));
}

TEST(Tokenizer, StaysWholeWhenItIsMoved) {
  Tokenizer first = testing::load_tokenizer(testing::byte_level_json({"a b"}));
  const Tokenizer second = std::move(first);
  EXPECT_EQ(second.encode("ab<|end|>", AddSpecial::no), (Ids{256, 257}));
  EXPECT_EQ(second.token_to_id("ab"), 256);
}

TEST(Tokenizer, ReadsBosAndEosFromItsConfiguration) {
  const json content = testing::byte_fallback_json({"▁", "a"}, {});
  const Tokenizer tokenizer =
      testing::load_tokenizer(content, {{"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}}}});
  EXPECT_EQ(tokenizer.bos_id(), 257);
  EXPECT_EQ(tokenizer.eos_id(), 258);
  const Tokenizer without =
      testing::load_tokenizer(content, {{"bos_token", nullptr}, {"eos_token", "<nowhere>"}});
  EXPECT_EQ(without.bos_id(), std::nullopt);
  EXPECT_EQ(without.eos_id(), std::nullopt);
}

TEST(Tokenizer, ReadsTheMapOfSpecialTokens) {
  const test::TemporaryDirectory folder;
  folder.write("tokenizer.json", testing::byte_fallback_json({"▁"}, {}).dump());
  folder.write("special_tokens_map.json", R"({"bos_token": {"content": "</s>"}, "eos_token": "</s>"})");
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path() / "tokenizer.json");
  EXPECT_EQ(tokenizer.bos_id(), 257);  // tokenizer_config.json takes precedence
  EXPECT_EQ(tokenizer.eos_id(), 258);
}

// DeepSeek's files have no template in tokenizer.json: the class adds BOS.
TEST(Tokenizer, AddsBosAndEosByTheFlagsOfLlamasClass) {
  const json content = testing::byte_fallback_json({"▁", "a"}, {});
  json config = {{"tokenizer_class", "LlamaTokenizerFast"},
                 {"bos_token", "<s>"},
                 {"eos_token", "</s>"},
                 {"add_bos_token", true},
                 {"add_eos_token", true}};
  EXPECT_EQ(testing::load_tokenizer(content, config).encode("a", AddSpecial::yes), (Ids{257, 259, 260, 258}));
  EXPECT_EQ(testing::load_tokenizer(content, config).encode("a", AddSpecial::no), (Ids{259, 260}));
  config["add_bos_token"] = false;
  EXPECT_EQ(testing::load_tokenizer(content, config).encode("a", AddSpecial::yes), (Ids{259, 260, 258}));
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  EXPECT_EQ(testing::load_tokenizer(content, config).encode("a", AddSpecial::yes), (Ids{259, 260}));
}

TEST(Tokenizer, MarksTheFirstWordOnlyWhereTheTextBegins) {
  json content = testing::byte_fallback_json({"▁", "a"}, {});
  content["normalizer"] = nullptr;
  content["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  const Tokenizer tokenizer = testing::load_tokenizer(content);
  EXPECT_EQ(tokenizer.encode("a</s>a", AddSpecial::no), (Ids{259, 260, 258, 260}));
  EXPECT_EQ(tokenizer.encode("</s>a", AddSpecial::no), (Ids{258, 260}));
}

// The `tokenizers` library asks whether a piece's first character comes from the first character of the text
// (NormalizedString::offsets_original in normalizer.rs).
TEST(Tokenizer, MarksNoFirstWordIfANormalizerDeletesTheFirstCharacter) {
  const auto replace = [](const char* pattern, const char* content) {
    return json{{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", content}};
  };
  const auto sequence = [](const json& one, const json& other) {
    return json{{"type", "Sequence"}, {"normalizers", json::array({one, other})}};
  };
  const json strip = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  const json prepend = {{"type", "Prepend"}, {"prepend", "a"}};
  const json accents = {{"type", "StripAccents"}};
  const json bert = {{"type", "BertNormalizer"}};
  const json precompiled = testing::read_json(testing::copied_folder("unigram-t5style") /
                                              "tokenizer.json")["normalizer"]["normalizers"][0];
  struct Case {
    json normalizer;
    std::string text;
    std::string expected;
  };
  const Case cases[] = {
      {nullptr, "aa", "▁aa"},
      {strip, "aa", "▁aa"},
      {strip, " aa", "aa"},
      {accents, "a\u0301a", "▁aa"},
      {accents, "\u0301aa", "aa"},
      {{{"type", "NFD"}}, "\u00E9a", "▁e\u0301a"},
      {{{"type", "NFC"}}, "e\u0301a", "▁\u00E9a"},
      {{{"type", "Nmt"}},
       "\x01"
       "aa",
       "aa"},
      {bert,
       "\x01"
       "Aa",
       "aa"},
      {bert, "Aa", "▁aa"},
      {prepend, "a", "▁aa"},
      {sequence(strip, prepend), " a", "aa"},
      {replace("-", ""), "-aa", "aa"},
      {replace("-", ""), "a-a", "▁aa"},
      {replace("^", "a"), "a", "▁aa"},
      {replace("-", "a"), "-a", "▁aa"},
      // A replacement has the position of the last character that it replaces.
      {replace("--", "a"), "--a", "aa"},
      // The library does not record a map's deletions before the first remaining character.
      {precompiled,
       "\x01"
       "aa",
       "▁aa"},
  };
  for (const Case& c : cases) {
    json content = testing::byte_fallback_json({"▁", "a", "e", "\u00E9", "\u0301"}, {});
    content["normalizer"] = c.normalizer;
    content["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
    const Tokenizer tokenizer = testing::load_tokenizer(content);
    std::string tokens;
    for (const TokenId id : tokenizer.encode(c.text, AddSpecial::no)) tokens += tokenizer.id_to_token(id);
    EXPECT_EQ(tokens, c.expected) << c.normalizer << " of " << json(c.text);
  }
}

TEST(Tokenizer, GivesAnErrorForAPatternThatExplodes) {
  json content = testing::byte_level_json();
  content["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a|aa)+$"}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Tokenizer tokenizer = testing::load_tokenizer(content);
  const std::string text = std::string(100, 'a').append("b");
  EXPECT_CONTAINS(test::error_of<RequestError>([&] { tokenizer.encode(text, AddSpecial::no); }), "(a|aa)+$");
}

// Processor time of encoding one line that repeats `unit`.
double seconds_for_line(const Tokenizer& tokenizer, const std::string& unit, std::size_t size) {
  std::string line;
  while (line.size() < size) line += unit;
  const std::clock_t begin = std::clock();
  EXPECT_FALSE(tokenizer.encode(line, AddSpecial::no).empty());
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// A line eight times as long takes 8 to 10 times as long, and some tenths of a second more if its memory
// exceeds a busy machine's caches. With one step per pair of characters, it would take minutes.
TEST(Tokenizer, TakesTimeInTheLengthOfALineNotItsSquare) {
  const Tokenizer byte_level =
      testing::load_tokenizer(testing::byte_level_json({"a a", "aa aa", "Ġ Ġ", "Ċ Ċ"}));
  const Tokenizer fallback =
      testing::load_tokenizer(testing::byte_fallback_json({"▁", "a"}, {"a a", "▁ ▁", "▁▁ ▁▁", "▁ a"}));
  const Tokenizer unigram = testing::load_tokenizer(testing::unigram_json({"a", "aa", "aaaa", "▁", "▁▁"}));
  for (const Tokenizer* tokenizer : {&byte_level, &fallback, &unigram}) {
    for (const std::string unit : {"a", " ", "\n", "<", "\xFF", "é", "a b "}) {
      const double shorter = seconds_for_line(*tokenizer, unit, 1 << 17);
      const double longer = seconds_for_line(*tokenizer, unit, 1 << 20);
      EXPECT_LT(longer, 30 * shorter + 2.0) << unit;
    }
  }
}

}  // namespace
}  // namespace tp
