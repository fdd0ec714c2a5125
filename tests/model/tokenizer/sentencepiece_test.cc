// Compares our tokens for a tokenizer.model with the SentencePiece library's.
#include "model/tokenizer/text/utf8.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

namespace tp {
namespace {

using Ids = std::vector<TokenId>;

// Encodes fields in the format of Protocol Buffers.
std::string field(int number, std::string_view bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  std::size_t size = bytes.size();
  for (; size >= 0x80; size >>= 7) out += static_cast<char>(size | 0x80);
  out += static_cast<char>(size);
  return out.append(bytes);
}
std::string field(int number, int value) {
  std::string out;
  for (int key = number << 3; key >= 0; key = key >= 0x80 ? key >> 7 : -1)
    out += static_cast<char>(key >= 0x80 ? key | 0x80 : key);
  return out + static_cast<char>(value);
}
std::string field(int number, float value) {
  std::string out(1, static_cast<char>(number << 3 | 5));
  char bytes[4];
  std::memcpy(bytes, &value, 4);
  return out.append(bytes, 4);
}

struct TestedModel {
  int algorithm = 1;  // 1: Unigram, 2: BPE, 3: words, 4: characters
  bool byte_fallback = false;
  bool adds_space = true;
  bool space_behind = false;
  bool collapses_spaces = true;
  bool marks_spaces = true;
  std::string pieces = {};

  void add(std::string_view text, float score, int type = 1) {
    pieces += field(1, field(1, text) + field(2, score) + field(3, type));
  }
  std::string file() const {
    std::string trainer = field(3, algorithm);
    if (space_behind) trainer += field(24, 1);
    if (byte_fallback) trainer += field(35, 1);
    return pieces + field(2, trainer) +
           field(3, field(3, adds_space ? 1 : 0) + field(4, collapses_spaces ? 1 : 0) +
                        field(5, marks_spaces ? 1 : 0));
  }
};

// Uses few characters, so that random texts contain tokens.
std::string random_word(std::mt19937& random, std::size_t max_size) {
  static const std::vector<std::string> letters = {"a", "b", "c", "▁", "é", "中"};
  std::string word;
  for (std::size_t size = 1 + random() % max_size; size > 0; --size)
    word += letters[random() % letters.size()];
  return word;
}

TestedModel random_model(std::mt19937& random) {
  TestedModel model;
  model.algorithm = random() % 2 == 0 ? 1 : random() % 4 == 0 ? 4 : 2;
  model.byte_fallback = random() % 2 == 0;
  model.adds_space = random() % 3 != 0;
  model.space_behind = random() % 5 == 0;
  model.collapses_spaces = random() % 2 == 0;
  model.marks_spaces = random() % 5 != 0;
  model.add("<unk>", 0, 2);
  model.add("<s>", 0, 3);
  model.add("</s>", 0, 3);
  if (model.byte_fallback)
    for (int byte = 0; byte < 256; ++byte) model.add(fmt::format("<0x{:02X}>", byte), 0, 6);
  std::vector<std::string> used;
  const auto add = [&](const std::string& text, int type) {
    if (std::find(used.begin(), used.end(), text) != used.end()) return;
    used.push_back(text);
    // Uses few scores, so that some are equal.
    model.add(text, -static_cast<float>(random() % 12) / 4, type);
  };
  for (const char* letter : {"a", "b", "c", "▁", "é"})
    if (random() % 8 != 0) add(letter, 1);
  for (std::size_t count = random() % 30; count > 0; --count)
    add(random_word(random, 4), random() % 12 == 0 ? 4 : random() % 25 == 0 ? 5 : 1);
  return model;
}

std::string random_text_of_letters(std::mt19937& random) {
  static const std::vector<std::string> parts = {"a", "b", "c",  "ab", "bc", "abc", " ",      "  ",
                                                 "▁", "é", "中", "x",  "\n", "<s>", "<0x41>", "<unk>"};
  std::string text;
  for (std::size_t count = random() % 30; count > 0; --count) text += parts[random() % parts.size()];
  return text;
}

void expect_same_ids(const std::filesystem::path& file, const std::vector<std::string>& texts) {
  const Tokenizer ours = Tokenizer::load(file);
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(file.string()).ok());
  for (const std::string& text : texts) {
    Ids expected;
    ASSERT_TRUE(library.Encode(text, &expected).ok());
    ASSERT_EQ(ours.encode(text, AddSpecial::no), expected) << "'" << text << "'";
  }
}

class TokenizerModelOf : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerModelOf, GivesTheIdsOfTheLibraryForRandomTexts) {
  std::filesystem::path file = testing::copied_folder(GetParam()) / "tokenizer.model";
  if (!std::filesystem::exists(file)) file = testing::shared_folder(GetParam()) / "tokenizer.model";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not on this machine";
  const Tokenizer tokenizer = Tokenizer::load(file);
  std::mt19937 random(11);
  std::vector<std::string> texts;
  for (int round = 0; round < 1500; ++round) {
    // The text's broken UTF-8 is repaired first, because the library replaces it byte by byte.
    std::string text;
    while (text.size() < random() % 400) {
      if (random() % 3 == 0) {
        const std::string part = testing::random_text(random, 5);
        if (utf8::is_valid(part)) text += part;
      } else if (random() % 3 == 0) {
        const auto c = static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x3000 : 0x1F900));
        if (c != 0 && (c < 0xD800 || c > 0xDFFF)) utf8::append(text, c);
      } else {
        const auto id = static_cast<TokenId>(random() % tokenizer.vocab_size());
        for (const char byte : tokenizer.id_to_token(id)) text += byte;
        if (random() % 2 == 0) text += ' ';
      }
    }
    texts.push_back(text);
  }
  expect_same_ids(file, texts);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TokenizerModelOf,
                         ::testing::Values("gemma-style", "unigram-t5style", "stories260K", "llama2",
                                           "mistral-v0.3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

TEST(TokenizerModel, GivesTheLibrarysIdsForEveryKind) {
  const test::TemporaryDirectory folder;
  std::mt19937 random(5);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    folder.write("tokenizer.model", random_model(random).file());
    std::vector<std::string> texts;
    for (int i = 0; i < 60; ++i) texts.push_back(random_text_of_letters(random));
    ASSERT_NO_FATAL_FAILURE(expect_same_ids(folder.path() / "tokenizer.model", texts));
  }
}

std::string error_of_loading(const std::string& content) {
  const test::TemporaryDirectory folder;
  folder.write("tokenizer.model", content);
  return test::error_of<CheckpointError>([&] { Tokenizer::load(folder.path() / "tokenizer.model"); });
}

// Decoded texts would be broken.
TEST(TokenizerModel, RefusesTokensThatAreNotUtf8) {
  TestedModel model;
  model.add("<unk>", 0, 2);
  model.add("a", -1);
  model.add("b\xC0", -2);
  EXPECT_CONTAINS(error_of_loading(model.file()), "token 2 is not UTF-8");
}

// The library's trie throws an exception of its own, which says nothing of tokens.
TEST(TokenizerModel, RefusesTokensWithNul) {
  TestedModel model;
  model.add("<unk>", 0, 2);
  model.add(std::string_view("a\0b", 3), -1);
  EXPECT_CONTAINS(error_of_loading(model.file()), "token 1 contains a NUL character");
}

// The library skips groups, and would read the token behind this one.
TEST(TokenizerModel, RefusesGroups) {
  TestedModel model;
  model.add("<unk>", 0, 2);
  const std::string group = "\x7B\x7C";  // field 15: its begin and its end
  const std::string token = field(1, field(1, std::string_view("a\0b", 3)) + field(2, -1.0F));
  EXPECT_CONTAINS(error_of_loading(group + token + model.file()), "found a field of kind 3");
  EXPECT_CONTAINS(error_of_loading(model.file() + field(1, field(1, "b") + group)),
                  "found a field of kind 3");
}

// The library skips a field of another kind, and drops the bits of a field's number beyond 32.
TEST(TokenizerModel, SkipsWhatTheLibrarySkips) {
  TestedModel model;
  model.add("<unk>", 0, 2);
  const std::string text = field(1, std::string_view("a\0b", 3));
  const std::string number = field(1, 1);
  EXPECT_CONTAINS(error_of_loading(model.file() + field(1, text + number + field(2, -1.0F))),
                  "token 1 contains a NUL character");
  const std::string piece = field(1, text + field(2, -1.0F));
  const std::string long_key = "\x8A\x80\x80\x80\x10";  // field 1, and bit 32
  EXPECT_CONTAINS(error_of_loading(model.file() + long_key + piece.substr(1)),
                  "token 1 contains a NUL character");
}

// The algorithm of words is the library's own, which does not check its table: texts with "a" would lead
// outside the trie, or outside the replacements.
TEST(TokenizerModel, RefusesTablesOfCharactersThatLeadOutside) {
  TestedModel model;
  model.algorithm = 3;
  model.add("<unk>", 0, 2);
  model.add("\u2581a", -1);
  constexpr std::uint32_t kUnits = 512;
  const auto error_with = [&](std::uint32_t offset, std::uint32_t value) {
    std::vector<std::uint32_t> trie(kUnits);
    trie[0] = 256 << 10;                              // "a" leads to 256 ^ 0x61
    trie[256 ^ 0x61] = offset << 10 | 1 << 8 | 0x61;  // a string ends here
    trie[256 ^ 0x61 ^ 1] = 1U << 31 | value;
    std::string map;
    const auto put = [&](std::uint32_t word) {
      for (unsigned shift = 0; shift < 32; shift += 8) map.push_back(static_cast<char>(word >> shift));
    };
    put(4 * kUnits);
    for (const std::uint32_t unit : trie) put(unit);
    map += std::string("b\0", 2);
    const test::TemporaryDirectory folder;
    folder.write("tokenizer.model", model.file() + field(3, field(2, map)));
    return test::error_or_none<CheckpointError>(
        [&] { Tokenizer::load(folder.path() / "tokenizer.model").encode("a", AddSpecial::no); });
  };
  EXPECT_EQ(error_with(1, 0), "no error");
  EXPECT_CONTAINS(error_with(1 << 20, 0), "table of characters");
  EXPECT_CONTAINS(error_with(1, 1000), "table of characters");
}

}  // namespace
}  // namespace tp
