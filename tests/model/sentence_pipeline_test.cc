#include "model/sentence_pipeline.h"

#include "tests/checkpoint/checkpoint_files.h"

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
  try {
    SentencePipeline::load(directory.path(), 4);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "no error";
}

TEST(SentencePipeline, DoesNothingWithoutItsFiles) {
  const TemporaryDirectory directory;
  const SentencePipeline pipeline = SentencePipeline::load(directory.path(), 3);
  EXPECT_EQ(pipeline.pooling(), std::nullopt);
  EXPECT_FALSE(pipeline.normalizes());
  EXPECT_EQ(pipeline(std::vector<float>{1, 2, 3}), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(pipeline.prompt(""), "");
}

TEST(SentencePipeline, PoolsAndNormalizesAsTheFilesSay) {
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

TEST(SentencePipeline, HasThePromptsOfTheModel) {
  const TemporaryDirectory directory;
  write_modules(directory, {"Transformer"});
  directory.write(
      "config_sentence_transformers.json",
      json{{"prompts", {{"query", "Query: "}, {"document", ""}}}, {"default_prompt_name", "query"}}.dump());
  const SentencePipeline pipeline = SentencePipeline::load(directory.path(), 2);
  EXPECT_EQ(pipeline.prompt(""), "Query: ");
  EXPECT_EQ(pipeline.prompt("document"), "");
  try {
    pipeline.prompt("title");
    FAIL() << "no error";
  } catch (const RequestError& error) {
    EXPECT_STREQ(
        error.what(),
        "the model has no prompt \"title\" (config_sentence_transformers.json), expected document, query; "
        "give one of them, or none");
  }
}

TEST(SentencePipeline, RefusesWhatItCannotDo) {
  const TemporaryDirectory directory;
  write_modules(directory, {"Transformer", "LSTM"});
  EXPECT_NE(refusal(directory).find("Transformer, Pooling, Dense or Normalize"), std::string::npos)
      << refusal(directory);
  write_modules(directory, {"Transformer", "Pooling"});
  directory.write("1_Pooling/config.json", json{{"pooling_mode_max_tokens", true}}.dump());
  EXPECT_NE(refusal(directory).find("found pooling_mode_max_tokens"), std::string::npos)
      << refusal(directory);
  write_modules(directory, {"Transformer", "Dense"});
  directory.write("1_Dense/config.json", json{{"in_features", 5}, {"out_features", 2}}.dump());
  EXPECT_NE(refusal(directory).find("in_features must be 4, the size of what comes before, found 5"),
            std::string::npos)
      << refusal(directory);
}

}  // namespace
}  // namespace tp
