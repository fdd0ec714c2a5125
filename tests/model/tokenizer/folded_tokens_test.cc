#include "model/tokenizer/folded_tokens.h"

#include "tests/model/tokenizer/test_tokenizer.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Ids = std::vector<TokenId>;

// The expected ids are those of the original code with the `tokenizers` library.
TEST(FoldedTokens, AreThoseOfTheOriginal) {
  const std::filesystem::path folder = std::filesystem::path(TP_TEST_DATA) / "engram";
  const Ids expected =
      testing::read_json(folder / "engram_token_map.json").at("folded_ids").get<std::vector<TokenId>>();
  EXPECT_EQ(folded_tokens(Tokenizer::load(folder / "tokenizer.json")), expected);
}

// A word for each id. Texts are those of the words, because the tokenizer has no decoder.
Ids folded_words(const std::vector<std::string>& words) {
  return folded_tokens(testing::load_tokenizer({{"model", testing::bpe_json(words)}}));
}

TEST(FoldedTokens, IgnoreCaseAccentsAndFormsOfCharacters) {
  EXPECT_EQ(folded_words({"\u00C4", "a", "A\u0308", "\uFF21", "\u00E6", "\u00C6", "\u01C5", "d\u017E", "dz"}),
            (Ids{0, 0, 0, 0, 1, 1, 2, 2, 2}));
}

TEST(FoldedTokens, IgnoreWhiteSpaceAtTheEndsAndItsKindInside) {
  EXPECT_EQ(folded_words({" a", "a\n", "\u00A0a", "a \r\n\tb", "a b", "ab", "a\vb"}),
            (Ids{0, 0, 0, 1, 1, 2, 3}));
}

// A blank stays; other texts that would become empty stay as they are.
TEST(FoldedTokens, KeepTextsThatWouldBecomeEmpty) {
  EXPECT_EQ(folded_words({" ", "\n\n", "\t", "\v", "\f", "\u0301", "\u0300", "\u00A0", "\uE000"}),
            (Ids{0, 0, 0, 1, 2, 3, 4, 0, 0}));
}

// The bytes C3 and 84 are the letter A with two dots together, and no characters alone. The raw spelling of
// C3 is the letter A with a tilde, which as a text would fold to a.
TEST(FoldedTokens, KeepTheSpellingOfPartsOfCharacters) {
  const Ids folded =
      folded_tokens(testing::load_tokenizer(testing::byte_level_json({"\u00C3 \u0126"})));  // Ħ is byte 84
  EXPECT_NE(folded[0xC3], folded['a']);
  EXPECT_NE(folded[0xC3], folded[0x84]);
  EXPECT_EQ(folded['A'], folded['a']);
  EXPECT_EQ(folded[256], folded['a']);
}

}  // namespace
}  // namespace tp
