#include "model/tokenizer/embed_vocabulary.h"

#include "model/tokenizer/gguf_vocabulary.h"
#include "model/tokenizer/tokenizer_files.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tp/error.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

EmbeddedVocabulary embedded(const std::filesystem::path& folder, std::size_t rows) {
  return embed_vocabulary(load_tokenizer_parts(folder), rows, folder.filename()).vocabulary;
}

// Those of fixtures, with the names under which llama.cpp knows their pre-tokenizers; empty for
// SentencePiece's.
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
  const std::filesystem::path folder = TP_SOURCE_FOLDER "/model/demo";
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

TEST(EmbedVocabulary, RefusesTokenizersThatGgufFilesCannotHave) {
  try {
    embedded(TP_TEST_DATA "/tokenizers/unigram-t5style", 1000);
    FAIL();
  } catch (const CheckpointError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(
        text.starts_with("cannot write the tokenizer of unigram-t5style to a GGUF file: expected "
                         "byte-level BPE with a pre-tokenizer that llama.cpp knows, "))
        << text;
    EXPECT_TRUE(
        text.ends_with("found one that makes other tokens of texts than all of these; use the checkpoint "
                       "without converting it"))
        << text;
  }
}

}  // namespace
}  // namespace tp
