#include "runtime/text/detokenizer.h"

#include "model/tokenizer/text/utf8.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/naive_decoder.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tp/error.h"

#include <algorithm>
#include <chrono>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using Ids = std::vector<TokenId>;

// Returns the texts of single tokens, and finish()'s text as the last one.
std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const Ids& prompt, const Ids& ids,
                                   SkipSpecial skip_special = SkipSpecial::no) {
  Detokenizer detokenizer(tokenizer, prompt, skip_special);
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(detokenizer.push(id));
  pieces.push_back(detokenizer.finish());
  return pieces;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

using Pieces = std::vector<std::string>;

// Ids 0-255 are bytes, 257 is <s>, 259 is the mark, 260 "a".
Tokenizer fallback_tokenizer() {
  return testing::load_tokenizer(testing::byte_fallback_json({"▁", "a"}, {"▁ a"}));
}
constexpr TokenId begin_of_text = 257;
constexpr TokenId mark = 259;
constexpr TokenId a = 260;
constexpr TokenId mark_a = 261;

TEST(Detokenizer, NeverReturnsHalfACharacter) {
  const Tokenizer tokenizer = testing::load_tokenizer(testing::byte_level_json());
  EXPECT_EQ(pieces_of(tokenizer, {}, {'a', 0xE4, 0xB8, 0xAD, 'b'}), (Pieces{"a", "", "", "中", "b", ""}));
  EXPECT_EQ(pieces_of(tokenizer, {}, {0xE4, 0xB8}), (Pieces{"", "", "�"}));
  EXPECT_EQ(pieces_of(tokenizer, {}, {0xE4, 'a', 0xFF}), (Pieces{"", "�a", "�", ""}));
}

TEST(Detokenizer, KeepsBytesUntilTheirRunIsOver) {
  const Tokenizer tokenizer = fallback_tokenizer();
  EXPECT_EQ(pieces_of(tokenizer, {a}, {0xE4, 0xB8, 0xAD, a}), (Pieces{"", "", "", "中a", ""}));
  EXPECT_EQ(pieces_of(tokenizer, {a}, {0xC3, 0xA9}), (Pieces{"", "", "é"}));
  EXPECT_EQ(pieces_of(tokenizer, {a}, {0x61, 0xFF, 0x61, a}), (Pieces{"", "��", "�", "a", ""}));
}

TEST(Detokenizer, DropsTheSpaceInFrontOfTheTextAndNoOther) {
  const Tokenizer tokenizer = fallback_tokenizer();
  EXPECT_EQ(pieces_of(tokenizer, {}, {mark_a, mark_a}), (Pieces{"a", " a", ""}));
  EXPECT_EQ(pieces_of(tokenizer, {}, {mark, mark, a}), (Pieces{"", " ", "a", ""}));
}

TEST(Detokenizer, SpacesTheFirstTokenAsOneThatFollowsThePrompt) {
  const Tokenizer tokenizer = fallback_tokenizer();
  EXPECT_EQ(pieces_of(tokenizer, {begin_of_text, mark_a}, {mark_a}), (Pieces{" a", ""}));
  EXPECT_EQ(pieces_of(tokenizer, {begin_of_text}, {mark_a}, SkipSpecial::yes), (Pieces{"a", ""}));
  EXPECT_EQ(pieces_of(tokenizer, {begin_of_text}, {mark_a}, SkipSpecial::no), (Pieces{" a", ""}));
}

TEST(Detokenizer, DoesNotRepeatThePrompt) {
  const Tokenizer tokenizer = fallback_tokenizer();
  // The prompt ends in the bytes of a whole character, but the run of bytes might continue.
  EXPECT_EQ(pieces_of(tokenizer, {mark_a, 0xC3, 0xA9}, {mark_a}), (Pieces{" a", ""}));
  EXPECT_EQ(pieces_of(tokenizer, {mark_a, 0xC3, 0xA9}, {}), (Pieces{""}));
}

TEST(Detokenizer, FinishesACharacterThatThePromptBegan) {
  EXPECT_EQ(joined(pieces_of(fallback_tokenizer(), {mark_a, 0xC3}, {0xA9, a})), "éa");
  const Tokenizer byte_level = testing::load_tokenizer(testing::byte_level_json());
  EXPECT_EQ(joined(pieces_of(byte_level, {'a', 0xC3}, {0xA9, 'b'})), "éb");
}

TEST(Detokenizer, IsNotSpoiltByAPromptThatEndsInBrokenBytes) {
  EXPECT_EQ(joined(pieces_of(fallback_tokenizer(), {mark_a, 0xFF}, {0xC3, 0xA9, a})), "éa");
}

TEST(Detokenizer, LeavesOutSpecialTokensIfAsked) {
  const Tokenizer tokenizer = fallback_tokenizer();
  EXPECT_EQ(joined(pieces_of(tokenizer, {mark_a}, {begin_of_text, mark_a}, SkipSpecial::yes)), " a");
  EXPECT_EQ(joined(pieces_of(tokenizer, {mark_a}, {begin_of_text, mark_a}, SkipSpecial::no)), "<s> a");
}

TEST(Detokenizer, RefusesUnknownIdsAndGoesOn) {
  const Tokenizer tokenizer = testing::load_tokenizer(testing::byte_level_json());
  Detokenizer detokenizer(tokenizer, {}, SkipSpecial::yes);
  EXPECT_EQ(detokenizer.push(0xC3), "");
  EXPECT_THROW(detokenizer.push(1000), RequestError);
  EXPECT_EQ(detokenizer.push(0xA9), "é");
  EXPECT_THROW(Detokenizer(tokenizer, Ids{-1}, SkipSpecial::yes), RequestError);
}

TEST(Detokenizer, TakesTheSameTimeForEveryToken) {
  const Tokenizer tokenizer = fallback_tokenizer();
  Detokenizer detokenizer(tokenizer, {}, SkipSpecial::yes);
  const auto begin = std::chrono::steady_clock::now();
  std::string text;
  // The second half is one run of bytes, which is held back completely.
  for (int i = 0; i < 200'000; ++i) text += detokenizer.push(mark_a);
  for (int i = 0; i < 200'000; ++i) text += detokenizer.push(0x61);
  text += detokenizer.finish();
  EXPECT_EQ(text.size(), 2u * 200'000 - 1 + 200'000);
  // Takes 0.2 s. Decoding everything again for each token would take hours.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// Ids in random order, with runs of neighbours, among which are those of bytes and special tokens.
Ids random_ids(std::mt19937& random, const Tokenizer& tokenizer) {
  Ids ids(random() % 40);
  for (TokenId& id : ids) {
    const std::size_t range =
        random() % 3 == 0 ? tokenizer.vocab_size() : std::min<std::size_t>(400, tokenizer.vocab_size());
    id = static_cast<TokenId>(random() % range);
  }
  return ids;
}

Pieces texts_of(const Tokenizer& tokenizer, const Ids& ids, SkipSpecial skip_special) {
  Pieces texts;
  for (const TokenId id : ids) {
    if (skip_special == SkipSpecial::no || !tokenizer.is_special(id))
      texts.emplace_back(tokenizer.id_to_token(id));
  }
  return texts;
}

class DetokenizerOf : public ::testing::TestWithParam<const char*> {
 protected:
  // Returns the folder. Skips the test if this machine lacks the tokenizer.
  static std::filesystem::path folder() {
    const std::string name = GetParam();
    return name == "gemma-style" ? testing::copied_folder("gemma-style") : testing::shared_folder(name);
  }
};

TEST_P(DetokenizerOf, EqualsDecodingTheWholeList) {
  if (!std::filesystem::exists(folder())) GTEST_SKIP() << folder() << " is not on this machine";
  const Tokenizer tokenizer = Tokenizer::load(folder());
  const nlohmann::json decoder = testing::read_json(folder() / "tokenizer.json")["decoder"];
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const Ids ids = random_ids(random, tokenizer);
    const SkipSpecial skip_special = random() % 2 == 0 ? SkipSpecial::yes : SkipSpecial::no;
    const Pieces pieces = pieces_of(tokenizer, {}, ids, skip_special);
    for (const std::string& piece : pieces) ASSERT_TRUE(utf8::is_valid(piece)) << nlohmann::json(ids);
    ASSERT_EQ(joined(pieces), tokenizer.decode(ids, skip_special)) << nlohmann::json(ids);
    ASSERT_EQ(joined(pieces), testing::naive_decode(decoder, texts_of(tokenizer, ids, skip_special)))
        << nlohmann::json(ids);
  }
}

TEST_P(DetokenizerOf, ContinuesAPrompt) {
  if (!std::filesystem::exists(folder())) GTEST_SKIP() << folder() << " is not on this machine";
  const Tokenizer tokenizer = Tokenizer::load(folder());
  std::mt19937 random(6);
  for (int round = 0; round < 500; ++round) {
    // Encoded texts end in whole characters, like prompts do.
    const Ids prompt =
        tokenizer.encode(fmt::format("x{}", testing::random_text(random, random() % 20)), AddSpecial::yes);
    Ids all = prompt;
    const Ids generated = tokenizer.encode(testing::random_text(random, random() % 20), AddSpecial::no);
    all.insert(all.end(), generated.begin(), generated.end());
    ASSERT_EQ(tokenizer.decode(prompt, SkipSpecial::yes) +
                  joined(pieces_of(tokenizer, prompt, generated, SkipSpecial::yes)),
              tokenizer.decode(all, SkipSpecial::yes));
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, DetokenizerOf,
                         ::testing::Values("gemma-style", "stories260K", "llama2", "llama3", "gpt2", "qwen2",
                                           "mistral-v0.3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

}  // namespace
}  // namespace tp
