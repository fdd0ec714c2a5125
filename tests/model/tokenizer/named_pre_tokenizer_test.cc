#include "model/tokenizer/steps/named_pre_tokenizer.h"

#include "model/tokenizer/embedded_vocabulary.h"
#include "model/tokenizer/text/unicode.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/test_tokenizer.h"

#include <set>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;
using Pieces = std::vector<std::string>;

// The pre_tokenizer and normalizer in each family's published tokenizer.json, their names, and the results of
// the `tokenizers` library (0.23.2) for some texts.
json published() { return testing::read_json(std::filesystem::path(TP_TEST_DATA) / "pre_tokenizers.json"); }

Pieces pieces_of(const NamedPreTokenizer& named, const std::string& text) {
  const std::string composed = named.traits.composes ? unicode::normalize(text, unicode::Form::nfc) : text;
  PreTokens tokens(composed, true);
  named.pre_tokenizer(tokens);
  Pieces pieces;
  for (const Span& piece : tokens.pieces) pieces.emplace_back(tokens.view(piece));
  return pieces;
}

TEST(NamedPreTokenizer, CutsTextsAsItsFamilyPublished) {
  for (const json& family : published()) {
    for (const std::string name : family.at("names")) {
      const auto named = named_pre_tokenizer(name);
      ASSERT_TRUE(named) << name;
      EXPECT_EQ(named->traits.composes, !family.at("normalizer").is_null()) << name;
      EXPECT_FALSE(named->traits.marks_spaces) << name;
      for (const json& example : family.at("cases"))
        EXPECT_EQ(pieces_of(*named, example.at("text")), example.at("pieces").get<Pieces>()) << name;
    }
  }
}

// All names in llama.cpp 0.5.
TEST(NamedPreTokenizer, KnowsTheNamesOfLlamaCpp) {
  std::set<std::string> names = {"gemma4", "granite-embed-multi-311m", "sarvam-moe"};
  for (const json& family : published()) names.insert(family.at("names").begin(), family.at("names").end());
  EXPECT_EQ(names.size(), 88U);
  for (const std::string& name : names) EXPECT_TRUE(pre_tokenizer_traits(name)) << name;
  for (const char* name : {"jina-v1-en", "whitespace", "gpt4o", ""}) {
    EXPECT_FALSE(pre_tokenizer_traits(name)) << name;
    EXPECT_FALSE(named_pre_tokenizer(name)) << name;
  }
  EXPECT_CONTAINS(unknown_pre_tokenizer("whitespace"), "removes white space");
  EXPECT_CONTAINS(unknown_pre_tokenizer("jina-v1-en"), "does not cut texts for byte-level BPE");
  EXPECT_CONTAINS(unknown_pre_tokenizer("gpt4o"),
                  "'gpt4o', which tp-infer does not know: expected a name that");
}

TEST(NamedPreTokenizer, KnowsWhoseTextsBeginWithBos) {
  for (const char* name : {"llama-bpe", "llama-v3", "falcon3", "falcon-h1", "tekken", "chameleon", "lfm2"})
    EXPECT_TRUE(pre_tokenizer_traits(name)->adds_bos) << name;
  for (const char* name : {"llama4", "gpt-4o", "smaug-bpe", "qwen2", "default"})
    EXPECT_FALSE(pre_tokenizer_traits(name)->adds_bos) << name;
}

// Gemma's and Sarvam's tokens are characters, and spaces are U+2581.
TEST(NamedPreTokenizer, MarksSpacesWhereTokensAreNotBytes) {
  EmbeddedVocabulary embedded;
  embedded.pre_tokenizer = "sarvam-moe";
  embedded.tokens = {"<unk>", "\u2581", "a", "b", "\u2581a", "a\n", "\n", "<0xC3>", "<0xA9>"};
  embedded.types.assign(7, TokenType::normal);
  embedded.types.insert(embedded.types.end(), 2, TokenType::byte);
  embedded.merges = {"\u2581 a", "a \n"};
  embedded.unknown = 0;
  const Tokenizer tokenizer(parts_from_vocabulary(embedded, "x.gguf"));
  EXPECT_EQ(tokenizer.encode("a a", AddSpecial::no), (Ids{2, 4}));
  EXPECT_EQ(tokenizer.encode("ba\n b\u00e9zz", AddSpecial::no), (Ids{3, 5, 1, 3, 7, 8, 0}));
  EXPECT_EQ(tokenizer.decode(Ids{2, 4, 7, 8}, SkipSpecial::no), "a a\u00e9");
}

}  // namespace
}  // namespace tp
