// Compares RWKV's vocabulary with an independent implementation, which tries all tokens at each place.
#include "model/tokenizer/rwkv_vocabulary.h"

#include "model/tokenizer/embed_vocabulary.h"
#include "model/tokenizer/gguf_vocabulary.h"
#include "model/tokenizer/tokenizer_files.h"
#include "model/weights/gguf/gguf_header.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Ids = std::vector<TokenId>;

struct LiteralToken {
  std::string bytes;
  std::string literal;  // Python's notation
};

// The tokens from id 257 on: some are not UTF-8.
const std::vector<LiteralToken> kLongTokens = {{"\n\n", R"('\n\n')"},
                                               {"  ", "'  '"},
                                               {"th", "'th'"},
                                               {"the", "'the'"},
                                               {" the", "' the'"},
                                               {"'s", R"("'s")"},
                                               {"\"'", R"('"\'')"},
                                               {"\\n", R"('\\n')"},
                                               {"\xC3\xA9", "'é'"},
                                               {"中", "'中'"},
                                               {"中文", "'中文'"},
                                               {"\xE3\x80\x80", R"('\u3000')"},
                                               {"\xC2\xA0", R"('\xa0')"},
                                               {"🙂", R"('\U0001F642')"},
                                               {"\xE4\xB8", R"(b'\xe4\xb8')"},
                                               {"\xF0\x9F\x99", R"(b'\xf0\x9f\x99')"},
                                               {"<s", "'<s'"}};

LiteralToken byte_token(int byte) {
  const std::string bytes(1, static_cast<char>(byte));
  if (byte >= 0x80) return {bytes, fmt::format("b'\\x{:02x}'", byte)};
  if (byte == '\'') return {bytes, R"("'")"};
  if (byte == '\\') return {bytes, R"('\\')"};
  if (byte == '\n') return {bytes, R"('\n')"};
  if (byte < 0x20 || byte == 0x7F) return {bytes, fmt::format("'\\x{:02x}'", byte)};
  return {bytes, "'" + bytes + "'"};
}

std::vector<LiteralToken> all_tokens() {
  std::vector<LiteralToken> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(byte_token(byte));
  tokens.insert(tokens.end(), kLongTokens.begin(), kLongTokens.end());
  return tokens;
}

std::string line_of(std::size_t id, const LiteralToken& token) {
  return fmt::format("{} {} {}\n", id, token.literal, token.bytes.size());
}

std::string vocabulary_file() {
  std::string file;
  std::size_t id = 0;
  for (const LiteralToken& token : all_tokens()) file += line_of(++id, token);
  return file;
}

Ids naive_ids(const std::string& text) {
  const std::vector<LiteralToken> tokens = all_tokens();
  Ids ids;
  for (std::size_t place = 0; place < text.size();) {
    std::size_t best = tokens.size();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::string& bytes = tokens[i].bytes;
      if (text.compare(place, bytes.size(), bytes) == 0 &&
          (best == tokens.size() || bytes.size() > tokens[best].bytes.size()))
        best = i;
    }
    ids.push_back(static_cast<TokenId>(best + 1));
    place += tokens[best].bytes.size();
  }
  return ids;
}

class RwkvVocabulary : public ::testing::Test {
 protected:
  void SetUp() override { folder_.write(kRwkvVocabularyFile, vocabulary_file()); }

  std::string error_of(const std::string& file) {
    folder_.write(kRwkvVocabularyFile, file);
    return test::error_of<CheckpointError>([&] { Tokenizer::load(folder_.path()); });
  }
  void expect_error(const std::string& file, const std::string& text) {
    EXPECT_CONTAINS(error_of(file), text);
  }

  test::TemporaryDirectory folder_;
};

TEST_F(RwkvVocabulary, TakesTheLongestTokenThatMatches) {
  const Tokenizer tokenizer = Tokenizer::load(folder_.path());
  EXPECT_EQ(tokenizer.vocab_size(), 257 + kLongTokens.size());
  std::mt19937 random(1);
  std::vector<std::string> texts = {"",       " the the's", "\n\n\n", "中文中", "é\u00A0\u3000🙂🙃",
                                    "\"'\\n", "丹<s"};
  for (int i = 0; i < 50; ++i) texts.push_back(testing::random_text(random, 20));
  for (const std::string& text : texts) {
    const Ids ids = tokenizer.encode(text, AddSpecial::yes);
    const std::string decoded = tokenizer.decode(ids, SkipSpecial::no);
    EXPECT_EQ(ids, naive_ids(decoded)) << decoded;
    EXPECT_EQ(tokenizer.encode(decoded, AddSpecial::no), ids) << decoded;
  }
  EXPECT_EQ(tokenizer.encode("the", AddSpecial::no), Ids{260});
}

TEST_F(RwkvVocabulary, EndsTextsWithId0UnderAnyName) {
  const Tokenizer unnamed = Tokenizer::load(folder_.path());
  EXPECT_EQ(unnamed.eos_id(), 0);
  EXPECT_EQ(unnamed.encode("a<s>a", AddSpecial::no), (Ids{'a' + 1, 0, 'a' + 1}));
  EXPECT_EQ(unnamed.decode(Ids{'a' + 1, 0}, SkipSpecial::yes), "a");
  folder_.write(
      "tokenizer_config.json",
      R"({"added_tokens_decoder": {"0": {"content": "<|end|>", "special": true}}, "eos_token": "<|end|>"})");
  const Tokenizer named = Tokenizer::load(folder_.path());
  EXPECT_EQ(named.eos_id(), 0);
  EXPECT_EQ(named.encode("a<|end|>", AddSpecial::no), (Ids{'a' + 1, 0}));
}

// The file stores bytes as llama.cpp's converter does: repr(token)[2:-1].
TEST_F(RwkvVocabulary, IsWrittenToGgufFiles) {
  EmbeddedVocabulary vocabulary =
      embed_vocabulary(load_tokenizer_parts(folder_.path()), 300, "model").vocabulary;
  EXPECT_EQ(vocabulary.scheme, EmbeddedVocabulary::Scheme::longest_match);
  EXPECT_EQ(vocabulary.tokens.size(), 300U);
  EXPECT_EQ(vocabulary.tokens[0], "<s>");
  const Tokenizer original = Tokenizer::load(folder_.path());
  const Tokenizer copy(parts_from_vocabulary(vocabulary, "x.gguf"));
  for (const char* const text : {" the the's", "丹中文\n\n🙂", "a<s>a"})
    EXPECT_EQ(copy.encode(text, AddSpecial::yes), original.encode(text, AddSpecial::yes)) << text;
  GgufValues values;
  write_vocabulary(vocabulary, values);
  const std::string file = "GGUF" + gguf_bytes(std::uint32_t{3}) + gguf_bytes(std::uint64_t{0}) +
                           gguf_bytes(static_cast<std::uint64_t>(values.count())) + values.bytes();
  const GgufMetadata metadata = parse_gguf_header(std::as_bytes(std::span(file)), "x.gguf").metadata;
  EXPECT_EQ(metadata.text("tokenizer.ggml.model"), "rwkv");
  const std::vector<std::string_view> tokens = metadata.texts("tokenizer.ggml.tokens");
  EXPECT_EQ(tokens[0], "<s>");
  EXPECT_EQ(tokens[1], R"(\x00)");
  EXPECT_EQ(tokens[257], R"(\n\n)");
  EXPECT_EQ(tokens[266], R"(\xe4\xb8\xad)");
  const EmbeddedVocabulary read = *gguf_vocabulary(metadata);
  EXPECT_EQ(read.scheme, EmbeddedVocabulary::Scheme::longest_match);
  EXPECT_EQ(read.tokens, vocabulary.tokens);
  EXPECT_EQ(read.types, vocabulary.types);
  EXPECT_EQ(read.eos, 0);
  EXPECT_FALSE(read.add_bos);
}

TEST_F(RwkvVocabulary, HasOnlyEscapedBytesInGgufFiles) {
  const std::string file = test::GgufBuilder()
                               .text("tokenizer.ggml.model", "rwkv")
                               .texts("tokenizer.ggml.tokens", {"a", "\\x1"})
                               .file();
  const GgufMetadata metadata = parse_gguf_header(std::as_bytes(std::span(file)), "x.gguf").metadata;
  EXPECT_CONTAINS(test::error_of<CheckpointError>([&] { gguf_vocabulary(metadata); }),
                  "token 1 is \"\\x1\", expected bytes as Python writes them");
}

TEST_F(RwkvVocabulary, SpellsBytesLikePython) {
  const std::pair<std::string, std::string> spellings[] = {{"the", "the"},
                                                           {"\n\t\r", R"(\n\t\r)"},
                                                           {std::string("\0\x7F", 2), R"(\x00\x7f)"},
                                                           {"é", R"(\xc3\xa9)"},
                                                           {"'", "'"},
                                                           {"\"", "\""},
                                                           {"\"'", R"("\')"},
                                                           {"\\", R"(\\)"}};
  for (const auto& [bytes, text] : spellings) {
    EXPECT_EQ(escaped_bytes(bytes), text);
    EXPECT_EQ(bytes_of_escaped(text), bytes);
  }
  for (const char* const text : {"\\", "\\x", "\\x1", "\\xg0", "\\u0041", "\\q"})
    EXPECT_EQ(bytes_of_escaped(text), std::nullopt) << text;
}

TEST_F(RwkvVocabulary, ExplainsErrors) {
  const std::string whole = vocabulary_file();
  expect_error(whole + line_of(7, {"xy", "'xy'"}), "line 274 has the id 7 a second time");
  expect_error(whole + line_of(900, {"the", "'the'"}), "found two with the same bytes (\"the\")");
  expect_error(whole.substr(whole.find('\n') + 1), "expected a token for every byte, found none for 0");
  for (const char* const line : {"0 'a' 1", "x 'a' 1", "300 'a' 2", "300 'a'", "300 a 1", "300 '\\ud800' 3",
                                 "300 '' 0", "4194304 'ab' 2", "-1 'ab' 2", "300 b'\\u0041' 1"})
    expect_error(whole + line + "\n", "line 274 must be an id from 1 to 4194303, a token in quotes");
  expect_error(whole + fmt::format("300 '{}' 2000\n", std::string(2000, 'a')), "at most 1024");
}

}  // namespace
}  // namespace tp
