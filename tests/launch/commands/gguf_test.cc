// GGUF files for all commands with --model.
#include "tests/launch/program.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

const std::string kMixed = TP_TEST_DATA "/gguf/llama-quant256-Q4_K_M-mixed";
const std::string kQ4 = TP_TEST_DATA "/gguf/llama-quant256-Q4_0";

// The expected text is from the author's own program, for a small model trained on stories.
TEST(GgufModel, GeneratesTheStoriesOfItsCheckpoint) {
  const std::filesystem::path shared = TP_SHARED_FIXTURES;
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "no " << shared;
  std::ifstream file(shared / "trained/stories260K/goldens.json");
  const nlohmann::json story = nlohmann::json::parse(file).at("goldens").at(0);
  const std::vector<int> all = story.at("continuation_ids");
  const std::vector<int> expected(all.begin(), all.begin() + 100);
  for (const std::size_t ranks : {kNoMpirun, std::size_t{3}}) {
    const Finished finished =
        run(ranks, {"generate", "--model", (shared / "gguf/stories260K-f32").string(), "--prompt",
                    story.at("prompt"), "--greedy", "--max-tokens", "100", "--json"});
    expect_success(finished);
    EXPECT_EQ(json_lines(finished.out).at(0).at("token_ids"), expected);
  }
}

TEST(GgufModel, IsInspected) {
  const Finished finished = run(kNoMpirun, {"inspect", "--model", kMixed + "/model.gguf", "--json"});
  expect_success(finished);
  const nlohmann::json types = nlohmann::json::parse(finished.out).at("stored_types");
  ASSERT_EQ(types.size(), 3U);
  EXPECT_EQ(types[0].at("type"), "Q4_K");
  EXPECT_EQ(types[0].at("held_as"), "q4_k");
  EXPECT_EQ(types[1].at("type"), "Q6_K");
  EXPECT_EQ(types[2],
            nlohmann::json({{"type", "F32"}, {"tensors", 3}, {"elements", 768}, {"held_as", "f32"}}));
  EXPECT_EQ(nlohmann::json::parse(run(kNoMpirun, {"inspect", "--model", kQ4, "--json"}).out).at("weights"),
            "int4");
}

TEST(GgufModel, RoundsNoneOfTheTypesThatItReads) {
  const Arguments generate = {"generate", "--tokens", kQ4 + "/prompt.json", "--max-tokens", "2", "--model"};
  const auto with = [&](Arguments more) {
    Arguments arguments = generate;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(kNoMpirun, arguments);
  };
  EXPECT_EQ(with({kMixed}).err, "");
  EXPECT_EQ(with({kMixed, "--weights", "f32"}).err, "");
  EXPECT_EQ(with({kQ4}).err, "");
  EXPECT_EQ(with({kMixed, "--weights", "int8"}).err, "");
}

}  // namespace
}  // namespace tp::test
