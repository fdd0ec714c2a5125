// --lora and --adapter.
#include "tests/launch/demo_adapter.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <cstddef>
#include <map>
#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

const std::string kLoraBase = TP_SOURCE_FOLDER "/model/demo";

nlohmann::json tuned_ids(std::size_t ranks, const std::string& model, const Arguments& more) {
  Arguments arguments = {"generate", "--model", model,          "--prompt", "Once upon a time",
                         "--greedy", "--json",  "--max-tokens", "24",       "--weights",
                         "f32"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Finished finished = run(ranks, arguments);
  expect_success(finished);
  return json_lines(finished.out).at(0).at("token_ids");
}

TEST(Lora, ChangesTheTextAsTheMergedModelDoes) {
  const DemoAdapter adapter;
  const TemporaryDirectory directory;
  const std::string lora = "tuned=" + adapter.path();
  const nlohmann::json plain = tuned_ids(kNoMpirun, kLoraBase, {});
  const nlohmann::json tuned = tuned_ids(kNoMpirun, kLoraBase, {"--lora", lora});
  EXPECT_NE(tuned, plain);
  EXPECT_EQ(tuned_ids(2, kLoraBase, {"--lora", lora}), tuned);
  EXPECT_EQ(tuned_ids(kNoMpirun, kLoraBase, {"--lora", lora, "--adapter", "none"}), plain);
  EXPECT_EQ(tuned_ids(kNoMpirun, kLoraBase, {"--lora", lora + ":0"}), plain);
  EXPECT_EQ(tuned_ids(kNoMpirun, kLoraBase,
                      {"--lora", "other=" + adapter.path() + ":0", "--lora", lora, "--adapter", "tuned"}),
            tuned);
  const std::string merged = (directory.path() / "merged.gguf").string();
  const Finished finished = run(
      kNoMpirun, {"quantize", "--model", kLoraBase, "--lora", lora, "--weights", "f32", "--output", merged});
  expect_success(finished);
  EXPECT_EQ(tuned_ids(kNoMpirun, merged, {}), tuned);
  const std::string rounded = (directory.path() / "rounded.gguf").string();
  EXPECT_CONTAINS(run(kNoMpirun, {"quantize", "--model", kLoraBase, "--lora", lora, "--weights", "int8",
                                  "--output", rounded})
                      .err,
                  "rounded to int8");
  expect_one_line(run(kNoMpirun, {"quantize", "--model", merged, "--lora", lora, "--weights", "int8",
                                  "--output", (directory.path() / "twice.gguf").string()}),
                  1, "cannot merge adapters");
}

// Such a GGUF adapter has Falcon-H1's multipliers, which quantize would multiply again.
TEST(Lora, InGgufIsNotMergedIntoAModelWithFactors) {
  const TemporaryDirectory directory;
  const std::string lora = "tuned=" TP_TEST_DATA "/gguf_lora/lora-llama/adapter.gguf";
  expect_one_line(
      run(kNoMpirun, {"quantize", "--model", fixture_folder("falconh1").string(), "--lora", lora, "--weights",
                      "int8", "--output", (directory.path() / "merged.gguf").string()}),
      1, "expected a folder in PEFT's layout, found a GGUF file");
}

TEST(Lora, IsChosenByTheLinesOfABatch) {
  const DemoAdapter adapter;
  const TemporaryDirectory directory;
  const auto batch = directory.write("batch.jsonl",
                                     R"({"prompt": "Once upon a time", "adapter": "tuned"}
{"prompt": "Once upon a time", "adapter": ""}
{"prompt": "Once upon a time"}
{"prompt": "Once upon a time", "adapter": "french"}
)");
  const Finished finished =
      run(2, {"generate", "--model", kLoraBase, "--batch", batch.string(), "--greedy", "--max-tokens", "24",
              "--weights", "f32", "--lora", "tuned=" + adapter.path(), "--lora",
              "half=" + adapter.path() + ":0.5", "--adapter", "tuned"});
  std::map<std::size_t, nlohmann::json> lines;
  for (const nlohmann::json& line : json_lines(finished.out)) lines[line.at("index")] = line;
  ASSERT_EQ(lines.size(), 4U) << finished.out;
  EXPECT_NE(lines[0].at("token_ids"), lines[1].at("token_ids"));
  EXPECT_EQ(lines[0].at("token_ids"), lines[2].at("token_ids"));
  EXPECT_CONTAINS(lines[3].at("error").get<std::string>(),
                  "there is no adapter french: expected tuned, half");
}

TEST(Lora, NeedsMemoryThatInspectShows) {
  const DemoAdapter adapter;
  const Finished finished = run(kNoMpirun, {"inspect", "--model", kLoraBase, "--ranks", "2", "--json",
                                            "--lora", "tuned=" + adapter.path()});
  expect_success(finished);
  const nlohmann::json ranks = nlohmann::json::parse(finished.out).at("ranks");
  // The bytes include at least the factors, divided like the layers.
  EXPECT_GT(ranks.at(0).at("adapter_bytes"), 4 * 4 * 4 * (256 + 512 + 512 + 256));
  const Finished without = run(kNoMpirun, {"inspect", "--model", kLoraBase, "--ranks", "2", "--json"});
  EXPECT_EQ(nlohmann::json::parse(without.out).at("ranks").at(0).at("weight_bytes"),
            ranks.at(0).at("weight_bytes"));
}

TEST(Lora, IsRefusedByName) {
  const DemoAdapter adapter;
  const auto generate = [](const Arguments& more) {
    Arguments arguments = {"generate", "--model", kLoraBase, "--prompt", "Once", "--max-tokens", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(kNoMpirun, arguments);
  };
  const std::string lora = "tuned=" + adapter.path();
  expect_one_line(generate({"--lora", adapter.path()}), 2, "expected NAME=PATH");
  expect_one_line(generate({"--lora", "tuned=/nowhere"}), 1, "found nothing at \"/nowhere\"");
  expect_one_line(generate({"--lora", lora, "--lora", lora}), 1, "expected a unique name");
  expect_one_line(generate({"--lora", lora, "--adapter", "french"}), 1, "there is no adapter french");
  expect_one_line(generate({"--adapter", "french"}), 1,
                  "there is no adapter french: expected one of --lora, found none; open it with --lora");
}

}  // namespace
}  // namespace tp::test
