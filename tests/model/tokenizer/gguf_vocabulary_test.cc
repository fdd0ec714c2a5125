#include "model/tokenizer/gguf_vocabulary.h"

#include "model/tokenizer/tokenizer_files.h"
#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf/gguf_header.h"
#include "tests/model/tokenizer/fixture_folders.h"
#include "tests/model/weights/gguf_builder.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using test::error_of;
using test::GgufBuilder;
using test::TemporaryDirectory;
using namespace std::string_literals;

GgufBuilder sentencepiece() {
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "llama")
      .texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab", "\u2581ab"})
      .numbers<float>("tokenizer.ggml.scores", GgufKind::f32, {0, 0, 0, -5, -6, -7, -1, -2})
      .numbers<std::int32_t>("tokenizer.ggml.token_type", GgufKind::i32, {2, 3, 3, 1, 1, 1, 1, 1})
      .whole("tokenizer.ggml.bos_token_id", 1)
      .whole("tokenizer.ggml.eos_token_id", 2)
      .whole("tokenizer.ggml.unknown_token_id", 0);
  return builder;
}

GgufBuilder byte_level(const std::vector<std::string>& merges = {"a b"}) {
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "gpt2")
      .texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<|end|>"})
      .texts("tokenizer.ggml.merges", merges)
      .numbers<std::int32_t>("tokenizer.ggml.token_type", GgufKind::i32, {1, 1, 1, 3})
      .whole("tokenizer.ggml.bos_token_id", 3);
  return builder;
}

// The vocabulary refers to the file.
EmbeddedVocabulary vocabulary_of(const GgufBuilder& builder) {
  const std::string file = builder.file();
  return *gguf_vocabulary(parse_gguf_header(std::as_bytes(std::span(file)), "m.gguf").metadata);
}

std::vector<TokenId> encode(const GgufBuilder& builder, std::string_view text) {
  return Tokenizer(parts_from_vocabulary(vocabulary_of(builder), "m.gguf")).encode(text, AddSpecial::yes);
}

TEST(GgufVocabulary, BeginsSentencePieceTextsWithBosAndASpace) {
  EXPECT_EQ(encode(sentencepiece(), "ab"), (std::vector<TokenId>{1, 7}));
  EXPECT_EQ(encode(sentencepiece()
                       .value("tokenizer.ggml.add_bos_token", GgufKind::boolean, "\0"s)
                       .value("tokenizer.ggml.add_space_prefix", GgufKind::boolean, "\0"s)
                       .value("tokenizer.ggml.add_eos_token", GgufKind::boolean, "\1"),
                   "ab</s>"),
            (std::vector<TokenId>{6, 2, 2}));
}

TEST(GgufVocabulary, AddsBosToByteLevelBpeOnlyInSomeFamilies) {
  EXPECT_EQ(encode(byte_level(), "ab<|end|>"), (std::vector<TokenId>{2, 3}));
  EXPECT_EQ(encode(byte_level().text("tokenizer.ggml.pre", "default"), "ab"), std::vector<TokenId>{2});
  EXPECT_EQ(encode(byte_level().text("tokenizer.ggml.pre", "llama-bpe"), "ab"), (std::vector<TokenId>{3, 2}));
  EXPECT_EQ(encode(byte_level().text("tokenizer.ggml.pre", "llama4"), "ab"), std::vector<TokenId>{2});
}

// Converters write a merge that makes no token for a vocabulary without merges.
TEST(GgufVocabulary, LeavesOutAnOnlyMergeThatMakesNoToken) {
  EXPECT_EQ(encode(byte_level({"b a"}), "ba"), (std::vector<TokenId>{1, 0}));
  EXPECT_CONTAINS(error_of<CheckpointError>([] {
                    encode(byte_level({"a b", "b a"}), "ba");
                  }),
                  "merge 1 is 'b a', expected two tokens of the vocabulary");
}

// The rules in llama.cpp's llama-vocab.cpp, "Handle per token attributes".
TEST(GgufVocabulary, StripsWhiteSpaceNextToAddedTokensByModelName) {
  struct Case {
    const char* key;
    const char* name;
    const char* token;
    const char* expected;  // text of the token between two spaces
  };
  constexpr const char* kName = "general.name";
  constexpr const char* kPre = "tokenizer.ggml.pre";
  constexpr const char* kArchitecture = "general.architecture";
  const Case cases[] = {
      {kName, "Llama", "<|end|>", " <|end|> "},
      {kName, "Phi-3-mini-4k-instruct", "<|end|>", " <|end|>"},
      {kName, "my PHI3", "<|end|>", " <|end|>"},
      {kName, "Phi-3-mini-4k-instruct", "<|endoftext|>", " <|endoftext|> "},
      {kName, "Phi-3-mini-4k-instruct", "<s>", " <s> "},
      {kName, "Phi-3-mini-4k-instruct", "<unk>", " <unk> "},
      {kName, "Phi-3-mini-4k-instruct", "</s>", " </s>"},
      {kName, "modern-bert-base", "[MASK]", "[MASK] "},
      {kName, "modern-bert-base", "<mask>", " <mask> "},
      {kPre, "jina-v2-code", "<mask>", "<mask> "},
      {kPre, "jina-v2-de", "<mask>", "<mask> "},
      {kPre, "jina-v2-es", "<mask>", "<mask> "},
      {kPre, "jina-v2-es", "[MASK]", " [MASK] "},
      {kPre, "roberta-bpe", "<mask>", " <mask> "},
      {kArchitecture, "jina-bert-v3", "<mask>", "<mask> "},
      {kArchitecture, "nomic-bert-moe", "<mask>", "<mask> "},
  };
  for (const Case& c : cases) {
    const std::vector<std::string> tokens = {"a",    "\u0120", "<|end|>", "<|endoftext|>", "<s>",
                                             "</s>", "<unk>",  "[MASK]",  "<mask>"};
    const GgufBuilder builder =
        GgufBuilder()
            .text("tokenizer.ggml.model", "gpt2")
            .texts("tokenizer.ggml.tokens", tokens)
            .texts("tokenizer.ggml.merges", {})
            .numbers<std::int32_t>("tokenizer.ggml.token_type", GgufKind::i32, {1, 1, 3, 3, 3, 4, 2, 3, 3})
            .value("tokenizer.ggml.add_bos_token", GgufKind::boolean, "\0"s)
            .text(c.key, c.name);
    std::string found;
    for (const TokenId id : encode(builder, "a " + std::string(c.token) + " a")) {
      const std::string& token = tokens[static_cast<std::size_t>(id)];
      found += token == "\u0120" ? " " : token;
    }
    EXPECT_EQ(found, "a" + std::string(c.expected) + "a") << c.name;
  }
}

// BERT and ModernBERT put one separator between two texts, and RoBERTa two. Files whose separator is not
// added can't join texts.
TEST(GgufVocabulary, JoinsPairsIfItAddsASeparator) {
  const auto separators = [](const char* cls, bool adds) {
    return vocabulary_of(GgufBuilder()
                             .text("tokenizer.ggml.model", "gpt2")
                             .texts("tokenizer.ggml.tokens", {"a", cls, "</s>"})
                             .texts("tokenizer.ggml.merges", {})
                             .numbers<std::int32_t>("tokenizer.ggml.token_type", GgufKind::i32, {1, 3, 3})
                             .whole("tokenizer.ggml.bos_token_id", 1)
                             .whole("tokenizer.ggml.eos_token_id", 2)
                             .whole("tokenizer.ggml.cls_token_id", 1)
                             .whole("tokenizer.ggml.seperator_token_id", 2)
                             .value("tokenizer.ggml.add_bos_token", GgufKind::boolean, "\1")
                             .value("tokenizer.ggml.add_eos_token", GgufKind::boolean, adds ? "\1"s : "\0"s))
        .pair_separators;
  };
  EXPECT_EQ(separators("[CLS]", true), 1U);
  EXPECT_EQ(separators("<s>", true), 2U);
  EXPECT_EQ(separators("[CLS]", false), 0U);
}

TEST(GgufVocabulary, KeepsTheChatTemplate) {
  EXPECT_EQ(vocabulary_of(byte_level()).chat_template, std::nullopt);
  EXPECT_EQ(vocabulary_of(byte_level().text("tokenizer.chat_template", "{{ x }}")).chat_template, "{{ x }}");
}

TEST(GgufVocabulary, NamesUnsupportedVocabularies) {
  EXPECT_CONTAINS(
      error_of<CheckpointError>([] { vocabulary_of(GgufBuilder().text("tokenizer.ggml.model", "plamo2")); }),
      "is \"plamo2\", expected gpt2, gemma4, llama, t5, bert or rwkv");
  EXPECT_CONTAINS(
      error_of<CheckpointError>([] { encode(byte_level().text("tokenizer.ggml.pre", "unheard-of"), "a"); }),
      "pre-tokenizer 'unheard-of', which tp-infer does not know: expected a name that");
  EXPECT_CONTAINS(
      error_of<CheckpointError>([] {
        vocabulary_of(GgufBuilder()
                          .text("tokenizer.ggml.model", "gpt2")
                          .texts("tokenizer.ggml.tokens", {"a"})
                          .numbers<std::int32_t>("tokenizer.ggml.token_type", GgufKind::i32, {7}));
      }),
      "has type 7, expected 1 to 6");
}

GgufMetadata metadata_of(const std::string& file) {
  return parse_gguf_header(std::as_bytes(std::span(file)), "m.gguf").metadata;
}

TEST(GgufVocabulary, IgnoresIdsOutsideTheVocabulary) {
  const std::string file =
      byte_level()
          .value("tokenizer.ggml.eos_token_id", GgufKind::u64, test::le(std::uint64_t{1} << 33))
          .whole("tokenizer.ggml.unknown_token_id", 4)
          .value("tokenizer.ggml.eot_token_id", GgufKind::i32, test::le(-2))
          .whole("tokenizer.ggml.padding_token_id", 0xFFFFFFFF)
          .value("tokenizer.ggml.mask_token_id", GgufKind::i32, test::le(-1))
          .whole("tokenizer.ggml.seperator_token_id", 3)
          .file();
  const GgufMetadata metadata = metadata_of(file);
  const EmbeddedVocabulary vocabulary = *gguf_vocabulary(metadata);
  EXPECT_EQ(vocabulary.bos, 3);
  EXPECT_EQ(vocabulary.eos, std::nullopt);
  EXPECT_EQ(vocabulary.unknown, std::nullopt);
  EXPECT_EQ(unknown_token_ids(metadata), (std::vector<std::string>{"tokenizer.ggml.eos_token_id 8589934592",
                                                                   "tokenizer.ggml.eot_token_id -2",
                                                                   "tokenizer.ggml.unknown_token_id 4"}));
}

TEST(GgufVocabulary, RejectsUnknownKinds) {
  for (const char* model : {"plamo2", "hybriddna", "whitespace"}) {
    const std::string file = GgufBuilder().text("tokenizer.ggml.model", model).file();
    EXPECT_CONTAINS(*unsupported_tokenizer(metadata_of(file)), std::string("is \"") + model);
  }
  const TemporaryDirectory folder;
  const auto file = folder.write("m.gguf", byte_level().text("tokenizer.ggml.pre", "unheard-of").file());
  EXPECT_FALSE(holds_tokenizer(file));
  EXPECT_CONTAINS(*find_tokenizer_flaws(file).unsupported,
                  "m.gguf: the vocabulary is for the pre-tokenizer 'unheard-of'");
  EXPECT_EQ(find_tokenizer_flaws(folder.write("n.gguf", byte_level().file())).unsupported, std::nullopt);
}

TEST(GgufVocabulary, MayBeAbsent) {
  const TemporaryDirectory folder;
  const auto file = folder.write("m.gguf", GgufBuilder().text("tokenizer.ggml.model", "none").file());
  EXPECT_FALSE(holds_tokenizer(file));
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { Tokenizer::load(file); }),
                  "expected a vocabulary in the file");
  EXPECT_TRUE(holds_tokenizer(folder.write("n.gguf", byte_level().file())));
}

// The ids of llama.cpp (node-llama-cpp 3) for Llama 2's vocabulary with the tokens and the name of Phi-3.
TEST(GgufVocabulary, GivesTheIdsOfPhi3WithARealVocabulary) {
  const std::filesystem::path folder = std::filesystem::path(TP_SHARED_FIXTURES) / "gguf_vocab";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const GgufFiles files(folder / "ggml-vocab-llama-spm.gguf");
  EmbeddedVocabulary vocabulary = *gguf_vocabulary(files.metadata());
  for (const char* token :
       {"<|endoftext|>", "<|assistant|>", "<|placeholder1|>", "<|placeholder2|>", "<|placeholder3|>",
        "<|placeholder4|>", "<|system|>", "<|end|>", "<|placeholder5|>", "<|placeholder6|>", "<|user|>"}) {
    vocabulary.tokens.emplace_back(token);
    vocabulary.types.push_back(TokenType::control);
    vocabulary.scores.push_back(-1000.0F);
  }
  infer_stripping("Phi-3-mini-4k-instruct", "phi3", vocabulary);
  const Tokenizer tokenizer(parts_from_vocabulary(std::move(vocabulary), "m.gguf"));
  const std::pair<const char*, std::vector<TokenId>> cases[] = {
      {"<|user|>\nHello<|end|>\n<|assistant|>\n", {32010, 15043, 32007, 32001}},
      {"<|system|>\nBe brief.<|end|>\n<|user|>\nHi there<|end|>\n<|assistant|>\n",
       {32006, 1522, 11473, 29889, 32007, 32010, 6324, 727, 32007, 32001}},
      {"a</s>  b<s>  c", {263, 2, 289, 1, 259, 274}},
      {"a<unk> b", {263, 0, 29871, 289}},
  };
  for (const auto& [text, ids] : cases) EXPECT_EQ(tokenizer.encode(text, AddSpecial::no), ids) << text;
}

// The expected ids are llama.cpp's for its own test texts, with a real vocabulary.
TEST(GgufVocabulary, GivesTheIdsOfOthersWithARealVocabulary) {
  const std::filesystem::path folder = std::filesystem::path(TP_SHARED_FIXTURES) / "gguf_vocab";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const Tokenizer tokenizer = Tokenizer::load(folder / "ggml-vocab-llama-spm.gguf");
  std::ifstream stream(folder / "ggml-vocab-llama-spm.expected.json");
  const nlohmann::json cases = nlohmann::json::parse(stream).at("cases");
  ASSERT_GT(cases.size(), 20U);
  for (const nlohmann::json& example : cases) {
    const std::string text = example.at("text");
    EXPECT_EQ(tokenizer.encode(text, AddSpecial::no), example.at("ids").get<std::vector<TokenId>>()) << text;
  }
}

}  // namespace
}  // namespace tp
