#include "model/layers/sentence_pipeline.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::TemporaryDirectory;

void write_modules(const TemporaryDirectory& directory, const std::vector<std::string>& types) {
  json modules = json::array();
  for (const std::string& type : types) {
    const std::string path = type == "Transformer" ? "" : "1_" + type;
    modules.push_back(
        {{"idx", modules.size()}, {"path", path}, {"type", "sentence_transformers.models." + type}});
    std::filesystem::create_directory(directory.path() / path);
  }
  directory.write("modules.json", modules.dump());
}

std::string refusal(const TemporaryDirectory& directory) {
  return test::error_of<CheckpointError>([&] { SentencePipeline::load(directory.path(), 4); });
}

TEST(SentencePipeline, DoesNothingWithoutItsFiles) {
  const TemporaryDirectory directory;
  const SentencePipeline pipeline = SentencePipeline::load(directory.path(), 3);
  EXPECT_EQ(pipeline.pooling(), std::nullopt);
  EXPECT_FALSE(pipeline.normalizes());
  EXPECT_EQ(pipeline(std::vector<float>{1, 2, 3}), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(pipeline.prompt(""), "");
}

TEST(SentencePipeline, PoolsAndNormalizesByTheFiles) {
  const TemporaryDirectory directory;
  write_modules(directory, {"Transformer", "Pooling", "Normalize"});
  directory.write("1_Pooling/config.json", json{{"pooling_mode_cls_token", true}}.dump());
  const SentencePipeline pipeline = SentencePipeline::load(directory.path(), 2);
  EXPECT_EQ(pipeline.pooling(), Pooling::first);
  EXPECT_TRUE(pipeline.normalizes());
  std::vector<float> vector = {3, 4};
  normalize(vector);
  EXPECT_FLOAT_EQ(vector[0], 0.6F);
  EXPECT_FLOAT_EQ(vector[1], 0.8F);
}

// llama.cpp's numbers.
TEST(SentencePipeline, PoolsByAGgufFile) {
  const TemporaryDirectory directory;
  const auto file_with = [&](std::uint32_t type) {
    return directory.write(
        "model.gguf",
        test::GgufBuilder().text("general.architecture", "llama").whole("llama.pooling_type", type).file());
  };
  const auto pooling = [&](std::uint32_t type) {
    return SentencePipeline::load(file_with(type), 2).pooling();
  };
  EXPECT_EQ(pooling(0), std::nullopt);
  EXPECT_EQ(pooling(1), Pooling::mean);
  EXPECT_EQ(pooling(2), Pooling::first);
  EXPECT_EQ(pooling(3), Pooling::last);
  EXPECT_EQ(pooling(4), std::nullopt);
  EXPECT_TRUE(SentencePipeline::load(file_with(1), 2).normalizes());
  EXPECT_FALSE(SentencePipeline::load(file_with(0), 2).normalizes());
  const std::filesystem::path unknown = file_with(5);
  EXPECT_EQ(
      test::error_of<CheckpointError>([&] { SentencePipeline::load(unknown, 2); }),
      "model.gguf: pooling_type must be 1 (mean), 2 (cls), 3 (last), 4 (rank) or 0 (none), found 5; use "
      "another model");
}

// Sentence Transformers' names since version 5.4, and its flags before.
TEST(SentencePipeline, ReadsTheModesOfEveryVersion) {
  const TemporaryDirectory directory;
  write_modules(directory, {"Transformer", "Pooling"});
  const auto pooling = [&](const json& config) {
    directory.write("1_Pooling/config.json", config.dump());
    return SentencePipeline::load(directory.path(), 2).pooling();
  };
  EXPECT_EQ(pooling({{"pooling_mode", "mean"}, {"embedding_dimension", 2}}), Pooling::mean);
  EXPECT_EQ(pooling({{"pooling_mode", "cls"}}), Pooling::first);
  EXPECT_EQ(pooling({{"pooling_mode", {"lasttoken"}}}), Pooling::last);
  EXPECT_EQ(pooling({{"pooling_mode", "cls"}, {"pooling_mode_mean_tokens", true}}), Pooling::first);
  EXPECT_EQ(pooling({{"pooling_mode_lasttoken", true}, {"pooling_mode_cls_token", false}}), Pooling::last);
  EXPECT_EQ(pooling({{"pooling_mode_mean_tokens", false}}), Pooling::mean);
  EXPECT_EQ(pooling({{"word_embedding_dimension", 2}}), Pooling::mean);
  for (const json& config : {json{{"pooling_mode", "max"}}, json{{"pooling_mode", {"cls", "mean"}}},
                             json{{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}}}) {
    directory.write("1_Pooling/config.json", config.dump());
    EXPECT_CONTAINS(refusal(directory), "pooling_mode must be mean, cls or lasttoken, found ") << config;
  }
}

TEST(SentencePipeline, ReadsTheSettingsOfTheTransformer) {
  for (const char* file : {"sentence_bert_config.json", "sentence_xlm-roberta_config.json"}) {
    const TemporaryDirectory directory;
    write_modules(directory, {"Transformer", "Dropout"});
    EXPECT_GT(SentencePipeline::load(directory.path(), 2).max_tokens(), 1U << 30);
    directory.write(file, json{{"max_seq_length", 128}, {"do_lower_case", true}}.dump());
    EXPECT_EQ(SentencePipeline::load(directory.path(), 2).max_tokens(), 128U);
    EXPECT_TRUE(SentencePipeline::load(directory.path(), 2).lower_case());
    directory.write(file, json{{"max_seq_length", nullptr}, {"do_lower_case", false}}.dump());
    EXPECT_GT(SentencePipeline::load(directory.path(), 2).max_tokens(), 1U << 30);
    EXPECT_FALSE(SentencePipeline::load(directory.path(), 2).lower_case());
  }
}

// As of INSTRUCTOR, whose means leave the instruction out.
TEST(SentencePipeline, RefusesPromptsThatPoolingWouldLeaveOut) {
  const TemporaryDirectory directory;
  write_modules(directory, {"Transformer", "Pooling"});
  directory.write("1_Pooling/config.json", R"({"pooling_mode": "mean", "include_prompt": false})");
  directory.write("config_sentence_transformers.json",
                  json{{"prompts", {{"query", "Query: "}, {"document", ""}}}}.dump());
  const SentencePipeline pipeline = SentencePipeline::load(directory.path(), 2);
  EXPECT_EQ(pipeline.prompt(""), "");
  EXPECT_EQ(pipeline.prompt("document"), "");
  EXPECT_THROW(pipeline.prompt("query"), RequestError);
}

TEST(SentencePipeline, HasThePromptsOfTheModel) {
  const TemporaryDirectory directory;
  write_modules(directory, {"Transformer"});
  directory.write(
      "config_sentence_transformers.json",
      json{{"prompts", {{"query", "Query: "}, {"document", ""}}}, {"default_prompt_name", "query"}}.dump());
  const SentencePipeline pipeline = SentencePipeline::load(directory.path(), 2);
  EXPECT_EQ(pipeline.prompt(""), "Query: ");
  EXPECT_EQ(pipeline.prompt("document"), "");
  EXPECT_EQ(
      test::error_of<RequestError>([&] { pipeline.prompt("title"); }),
      "the model has no prompt \"title\" (config_sentence_transformers.json), expected document, query; "
      "give one of them, or none");
}

TEST(SentencePipeline, RejectsUnsupportedPipelines) {
  const TemporaryDirectory directory;
  write_modules(directory, {"Transformer", "LSTM"});
  EXPECT_CONTAINS(refusal(directory), "Transformer, Pooling, Dense or Normalize");
  write_modules(directory, {"Transformer", "Pooling"});
  directory.write("1_Pooling/config.json", json{{"pooling_mode_max_tokens", true}}.dump());
  EXPECT_CONTAINS(refusal(directory), "found max");
  write_modules(directory, {"Transformer", "Dense"});
  directory.write("1_Dense/config.json", json{{"in_features", 5}, {"out_features", 2}}.dump());
  EXPECT_CONTAINS(refusal(directory), "in_features must be 4, the size of what comes before, found 5");
  directory.write("1_Dense/config.json", json{{"use_residual", true}}.dump());
  EXPECT_CONTAINS(refusal(directory), "use_residual must be false");
  directory.write("1_Dense/config.json", json{{"module_input_name", "token_embeddings"}}.dump());
  EXPECT_CONTAINS(refusal(directory), "module_input_name must be sentence_embedding");
}

}  // namespace
}  // namespace tp
