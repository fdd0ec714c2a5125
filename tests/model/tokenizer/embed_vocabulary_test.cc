#include "model/tokenizer/embed_vocabulary.h"

#include "model/tokenizer/gguf_vocabulary.h"
#include "model/tokenizer/tokenizer_files.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

EmbeddedVocabulary embedded(const std::filesystem::path& folder, std::size_t rows) {
  return embed_vocabulary(load_tokenizer_parts(folder), rows, folder.filename()).vocabulary;
}

// Fixtures, and llama.cpp's names of their pre-tokenizers; empty for SentencePiece's.
TEST(EmbedVocabulary, FindsThePreTokenizerByItsTokens) {
  const std::filesystem::path shared = TP_SHARED_FIXTURES "/tokenizers";
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no " << shared;
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"gpt2", "gpt-2"}, {"llama3", "llama-bpe"}, {"qwen2", "qwen2"}};
  for (const auto& [folder, name] : expected) {
    const EmbeddedVocabulary vocabulary = embedded(shared / folder, 200000);
    EXPECT_EQ(vocabulary.scheme, EmbeddedVocabulary::Scheme::listed_merges) << folder;
    EXPECT_EQ(vocabulary.pre_tokenizer, name) << folder;
    EXPECT_EQ(vocabulary.tokens.size(), 200000U);
    EXPECT_EQ(vocabulary.types.back(), TokenType::unused);
  }
  for (const std::string folder : {"llama2", "mistral-v0.3", "gemma-style", "stories260K"}) {
    if (!std::filesystem::exists(shared / folder)) continue;
    const EmbeddedVocabulary vocabulary = embedded(shared / folder, 40000);
    EXPECT_EQ(vocabulary.scheme, EmbeddedVocabulary::Scheme::sentencepiece_bpe) << folder;
  }
}

TEST(EmbedVocabulary, KeepsTheTypesOfTokens) {
  const std::filesystem::path folder = TP_TEST_DATA "/../../model/demo";
  const EmbeddedVocabulary vocabulary = embedded(folder, 1540);
  EXPECT_EQ(vocabulary.pre_tokenizer, "gpt-2");
  EXPECT_TRUE(vocabulary.add_bos);
  EXPECT_FALSE(vocabulary.add_eos);
  EXPECT_EQ(vocabulary.bos, 0);
  EXPECT_EQ(vocabulary.eos, 1);
  EXPECT_EQ(vocabulary.types[0], TokenType::control);
  EXPECT_EQ(vocabulary.types[5], TokenType::control);
  EXPECT_EQ(vocabulary.types[6], TokenType::normal);
  EXPECT_EQ(vocabulary.tokens[1539], "[PAD1539]");
  EXPECT_EQ(vocabulary.types[1539], TokenType::unused);
}

// The result for a tokenizer.json under a model's name, or the error.
EmbeddingResult embedded(const json& tokenizer, const std::string& model_name) {
  const test::TemporaryDirectory folder;
  folder.write("tokenizer.json", tokenizer.dump());
  return embed_vocabulary(load_tokenizer_parts(folder.path()), 400, model_name);
}

std::string error_of_embedding(const json& tokenizer, const std::string& model_name) {
  return test::error_or_none<CheckpointError>([&] { embedded(tokenizer, model_name); });
}

json with_flags(json tokenizer, const json& flags) {
  tokenizer["added_tokens"].back().update(flags);
  return tokenizer;
}

TEST(EmbedVocabulary, RefusesFlagsOfAddedTokensThatGgufFilesCannotStore) {
  const json bytes = testing::byte_level_json();                    // with <|end|>
  const json pieces = testing::byte_fallback_json({"▁", "a"}, {});  // with </s>
  json composing = bytes;
  composing["normalizer"] = {{"type", "NFC"}};
  json composed = composing;
  composed["added_tokens"].back()["content"] = "<caf\u00E9>";
  struct Case {
    const json& tokenizer;
    const char* flag;  // set to true
    const char* model_name;
    const char* found;  // nullptr: written
  };
  const Case cases[] = {
      {bytes, "special", "m", nullptr},
      {bytes, "lstrip", "m",
       "added tokens without lstrip, because GGUF cannot store this flag, found it at '<|end|>'"},
      {bytes, "rstrip", "m",
       "added tokens without rstrip, because GGUF cannot store this flag, found it at '<|end|>'"},
      {bytes, "single_word", "m", "added tokens without single_word"},
      {pieces, "lstrip", "m", "added tokens without lstrip"},
      {pieces, "rstrip", "m",
       "added tokens without rstrip, because GGUF cannot store this flag, found it at '</s>'"},
      {pieces, "single_word", "m", "added tokens without single_word"},
      // The normalizer adds a leading space, which only the start of a text gets.
      {pieces, "normalized", "m", "added tokens without normalized"},
      // Only a composed token has a different spelling.
      {composed, "normalized", "m", "added tokens without normalized"},
      {composing, "normalized", "m", nullptr},
      {bytes, "normalized", "m", nullptr},
      // The name implies the flag.
      {bytes, "rstrip", "Phi-3-mini", nullptr},
      {bytes, "special", "phi3",
       "expected rstrip at the added token '<|end|>', because readers infer this flag from the name phi3, "
       "found none; give the checkpoint another name"},
  };
  for (const Case& c : cases) {
    const std::string error = error_of_embedding(with_flags(c.tokenizer, {{c.flag, true}}), c.model_name);
    if (c.found == nullptr)
      EXPECT_EQ(error, "no error") << c.flag;
    else
      EXPECT_CONTAINS(error, c.found);
  }
}

TEST(EmbedVocabulary, KeepsTheFlagThatReadersInferFromTheName) {
  const EmbeddedVocabulary vocabulary =
      embedded(with_flags(testing::byte_level_json(), {{"rstrip", true}}), "Phi-3-mini").vocabulary;
  const Tokenizer tokenizer(parts_from_vocabulary(vocabulary, "x.gguf"));
  EXPECT_EQ(tokenizer.encode("a<|end|>\n a", AddSpecial::no), (std::vector<TokenId>{'a', 256, 'a'}));
}

// Without the flag "legacy", Llama's tokenizers add a space only to the start of a text.
TEST(EmbedVocabulary, NamesAnAddedTokenAfterWhichTheFileAddsASpace) {
  json pieces = testing::byte_fallback_json({"▁", "a"}, {});
  EXPECT_EQ(embedded(pieces, "m").differs_after, std::nullopt);
  pieces["normalizer"] = nullptr;
  pieces["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  EXPECT_EQ(embedded(pieces, "m").differs_after, "<unk>");
}

TEST(EmbedVocabulary, RefusesTokenizersThatGgufFilesCannotHave) {
  const std::string text =
      test::error_of<CheckpointError>([&] { embedded(TP_TEST_DATA "/tokenizers/unigram-t5style", 1000); });
  EXPECT_TRUE(
      text.starts_with("cannot write the tokenizer of unigram-t5style to a GGUF file: expected "
                       "byte-level BPE with a pre-tokenizer that llama.cpp knows, "))
      << text;
  EXPECT_TRUE(
      text.ends_with("found a tokenizer that differs from all of these; use the checkpoint "
                     "without converting it"))
      << text;
}

}  // namespace
}  // namespace tp
