#include "tests/checkpoint/checkpoint_files.h"
#include "tests/launch/program.h"

#include <fstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

nlohmann::json reference() {
  std::ifstream file(TP_DEMO_REFERENCE);
  return nlohmann::json::parse(file);
}

// reference.json was computed by the PyTorch model that was trained, in float32: its best two logits are
// never closer than 0.02 on the way, and two honest implementations differ by 1e-5.
TEST(DemoModel, ContinuesItsPromptsAsItsTrainingScriptDid) {
  const nlohmann::json expected = reference();
  for (const nlohmann::json& prompt : expected.at("prompts")) {
    for (const std::size_t ranks : {kNoMpirun, std::size_t{3}}) {
      const Finished finished = run(ranks, {"generate", "--prompt", prompt.at("prompt"), "--weights", "f32",
                                            "--greedy", "--max-tokens", "64", "--json"});
      expect_success(finished);
      const std::vector<nlohmann::json> lines = json_lines(finished.out);
      ASSERT_EQ(lines.size(), 1U);
      EXPECT_EQ(lines[0].at("token_ids"), prompt.at("continuation_ids")) << prompt.at("prompt");
    }
  }
}

// What it answers, with the ids of the prompt that its training script made: of the chat template, too.
TEST(DemoModel, AnswersConversationsAsItsTrainingScriptDid) {
  const nlohmann::json expected = reference().at("chats");
  ASSERT_GT(expected.size(), 3U);
  std::string requests;
  for (const nlohmann::json& chat : expected)
    requests += nlohmann::json{{"messages", chat.at("messages")}, {"max_tokens", 256}}.dump() + "\n";
  const TemporaryDirectory directory;
  const std::string batch = directory.write("requests.jsonl", requests);
  for (const std::size_t ranks : {kNoMpirun, std::size_t{4}}) {
    const Finished finished = run(ranks, {"generate", "--batch", batch, "--weights", "f32", "--greedy"});
    EXPECT_EQ(finished.status, 0) << finished.err;
    const std::vector<nlohmann::json> lines = json_lines(finished.out);
    ASSERT_EQ(lines.size(), expected.size()) << finished.err;
    for (const nlohmann::json& line : lines) {
      const nlohmann::json& chat = expected.at(line.at("index").get<std::size_t>());
      EXPECT_EQ(line.at("text"), chat.at("continuation"));
      EXPECT_EQ(line.at("finish_reason"), "stop");
      EXPECT_EQ(line.at("timings").at("prompt_tokens"), chat.at("prompt_ids").size());
    }
  }
}

}  // namespace
}  // namespace tp::test
