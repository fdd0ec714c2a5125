// Notices about harmless faults in a model's files.
#include "model/weights/gguf/gguf_type.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/engine/tiny_checkpoint.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::error_of;
using test::GgufBuilder;
using test::greedy_request;
using test::run_alone;
using test::run_engine;
using test::TemporaryDirectory;
using test::TinyCheckpoint;

using Names = std::vector<std::string>;

// TinyCheckpoint's sizes, with a vocabulary of five tokens.
GgufBuilder tiny_gguf(const std::string& pre_tokenizer) {
  GgufBuilder file;
  file.text("general.architecture", "llama");
  for (const auto& [key, number] : {std::pair{"llama.context_length", 64U},
                                    {"llama.embedding_length", 8U},
                                    {"llama.block_count", 1U},
                                    {"llama.feed_forward_length", 12U},
                                    {"llama.attention.head_count", 4U},
                                    {"llama.attention.head_count_kv", 2U}})
    file.whole(key, number);
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre_tokenizer);
  file.texts("tokenizer.ggml.tokens", {"a", "b", "c", "ab", "<end>"}).texts("tokenizer.ggml.merges", {"a b"});
  const auto tensor = [&](const std::string& name, const std::vector<std::uint64_t>& shape) {
    std::size_t size = 1;
    for (const std::uint64_t extent : shape) size *= extent;
    file.tensor(name, shape, "F32", test::bytes_of(reference::Random(size).numbers(size)));
  };
  tensor("token_embd.weight", {5, 8});
  for (const char* norm : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"})
    tensor(norm, {8});
  for (const char* square : {"blk.0.attn_q.weight", "blk.0.attn_output.weight"}) tensor(square, {8, 8});
  for (const char* narrow : {"blk.0.attn_k.weight", "blk.0.attn_v.weight"}) tensor(narrow, {4, 8});
  for (const char* wide : {"blk.0.ffn_gate.weight", "blk.0.ffn_up.weight"}) tensor(wide, {12, 8});
  tensor("blk.0.ffn_down.weight", {8, 12});
  return file;
}

int run(const std::filesystem::path& model, const std::function<void(Engine&)>& use) {
  return run_engine(test::world(), {.model = model.string()}, use);
}

TEST(EngineNotices, ATokenizerOfAnUnknownKindLeavesTheIds) {
  const TemporaryDirectory directory;
  const auto model = directory.write("model.gguf", tiny_gguf("unheard-of").file());
  run(model, [](Engine& engine) {
    EXPECT_FALSE(engine.has_tokenizer());
    EXPECT_CONTAINS(engine.info().tokenizer_notice, "model.gguf: the vocabulary is for the pre-tokenizer");
    EXPECT_CONTAINS(error_of<CheckpointError>([&] { engine.encode("ab"); }),
                    "cannot tokenize: model.gguf: the vocabulary is for the pre-tokenizer 'unheard-of'");
    EXPECT_EQ(run_alone(engine, greedy_request({1, 2}, 3)).tokens.size(), 3U);
  });
  run(directory.write("known.gguf", tiny_gguf("gpt-4o").file()), [](Engine& engine) {
    EXPECT_EQ(engine.info().tokenizer_notice, "");
    EXPECT_EQ(engine.encode("abc"), (std::vector<TokenId>{3, 2}));
  });
}

TEST(EngineNotices, SpecialTokensOutsideOfAGgufVocabularyAreIgnored) {
  const TemporaryDirectory directory;
  GgufBuilder file = tiny_gguf("gpt-2");
  file.whole("tokenizer.ggml.eos_token_id", 5).whole("tokenizer.ggml.eot_token_id", 4);
  run(directory.write("model.gguf", file.file()), [](Engine& engine) {
    EXPECT_EQ(engine.info().eos_token_ids, std::vector<TokenId>{4});
    EXPECT_EQ(engine.info().unknown_token_ids, Names{"tokenizer.ggml.eos_token_id 5"});
  });
}

TEST(EngineNotices, SpecialTokensOutsideOfACheckpointsVocabularyAreIgnored) {
  const TemporaryDirectory directory;
  TinyCheckpoint checkpoint;
  checkpoint.config["eos_token_id"] = {40, 3, -1};
  checkpoint.write(directory.path());
  const auto expect = [&](const std::vector<TokenId>& ends, const Names& ignored) {
    run(directory.path(), [&](Engine& engine) {
      EXPECT_EQ(engine.info().eos_token_ids, ends);
      EXPECT_EQ(engine.info().unknown_token_ids, ignored);
      EXPECT_EQ(run_alone(engine, greedy_request({1, 2}, 1)).tokens.size(), 1U);
    });
  };
  expect({3}, {"eos_token_id 40", "eos_token_id -1"});
  const nlohmann::json generation = {{"eos_token_id", 39},
                                     {"forced_bos_token_id", 41},
                                     {"forced_eos_token_id", -1},
                                     {"bad_words_ids", {{1, 2}, {1, 40}}}};
  directory.write("generation_config.json", generation.dump());
  expect({39}, {"forced_bos_token_id 41", "forced_eos_token_id -1", "bad_words_ids [1, 40]"});
  directory.write("generation_config.json", R"({"eos_token_id": [39, 4294967295]})");
  expect({39}, {"eos_token_id 2147483647"});
}

}  // namespace
}  // namespace tp
