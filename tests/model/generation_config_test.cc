#include "model/config/generation_config.h"

#include "tests/checkpoint/checkpoint_files.h"

namespace tp {
namespace {

using test::error_of;
using test::TemporaryDirectory;

GenerationConfig load(const std::string& text) {
  const TemporaryDirectory directory;
  directory.write("generation_config.json", text);
  return load_generation_config(directory.path());
}

template <class E>
std::string refusal_of(const std::string& text) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("generation_config.json", text).string();
  const std::string error = error_of<E>([&] { load_generation_config(directory.path()); });
  EXPECT_EQ(error.find(path + ": "), 0U) << error;
  return error.substr(std::min(error.size(), path.size() + 2));
}

TEST(GenerationConfig, IsGreedyWithoutAFile) {
  const TemporaryDirectory directory;
  const GenerationConfig config = load_generation_config(directory.path());
  EXPECT_TRUE(config.sampling.greedy());
  EXPECT_TRUE(config.eos_token_ids.empty());
}

TEST(GenerationConfig, IsGreedyUnlessTheFileAsksForSampling) {
  EXPECT_TRUE(load("{}").sampling.greedy());
  EXPECT_TRUE(load(R"({"do_sample": false, "temperature": 0.6})").sampling.greedy());
  EXPECT_FALSE(load(R"({"do_sample": true})").sampling.greedy());
}

TEST(GenerationConfig, HoldsWhatTheFileRecommends) {
  const GenerationConfig config = load(R"({"do_sample": true, "temperature": 0.5, "top_p": 0.75, "top_k": 20,
      "min_p": 0.25, "repetition_penalty": 1.5, "eos_token_id": [2, 32000]})");
  EXPECT_EQ(config.sampling.temperature, 0.5F);
  EXPECT_EQ(config.sampling.top_p, 0.75F);
  EXPECT_EQ(config.sampling.top_k, 20);
  EXPECT_EQ(config.sampling.min_p, 0.25F);
  EXPECT_EQ(config.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(config.eos_token_ids, (std::vector<TokenId>{2, 32000}));
}

TEST(GenerationConfig, KeepsTheFiftyBestUnlessToldOtherwiseAsTransformersDoes) {
  EXPECT_EQ(load(R"({"do_sample": true})").sampling.top_k, 50);
  EXPECT_EQ(load(R"({"do_sample": true, "top_k": 0})").sampling.top_k, 0);
  EXPECT_EQ(load(R"({"do_sample": true, "top_k": null})").sampling.top_k, 50);
}

TEST(GenerationConfig, RefusesValuesThatCannotWork) {
  const std::string advice = "; the file may be damaged: get it again from where the model comes from";
  EXPECT_EQ(refusal_of<CheckpointError>(R"({"do_sample": true, "temperature": "hot"})"),
            "cannot use temperature: found the string 'hot', expected a number" + advice);
  EXPECT_EQ(refusal_of<ConfigError>(R"({"do_sample": true, "top_p": 1.5})"),
            "cannot sample: `top_p` is 1.5, expected a number in (0, 1]; use 1 to keep all tokens");
  EXPECT_EQ(refusal_of<CheckpointError>(R"({"do_sample": 1})"),
            "cannot use do_sample: found 1, expected true or false" + advice);
  EXPECT_EQ(refusal_of<CheckpointError>(R"({"do_sample": true, "top_k": 2.5})"),
            "cannot use top_k: found 2.5, expected a whole number from 1 to 2147483647" + advice);
  EXPECT_EQ(refusal_of<ConfigError>(R"({"repetition_penalty": 0})"),
            "cannot sample: `repetition_penalty` is 0, expected a finite number > 0; use 1 for no penalty");
  EXPECT_EQ(
      refusal_of<CheckpointError>(R"({"eos_token_id": "two"})"),
      "cannot use eos_token_id: found the string 'two', expected a token id or a list of token ids" + advice);
}

}  // namespace
}  // namespace tp
