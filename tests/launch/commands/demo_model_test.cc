#include "tests/launch/program.h"
#include "tests/temporary_directory.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

nlohmann::json reference() {
  std::ifstream file(TP_DEMO_REFERENCE);
  return nlohmann::json::parse(file);
}

// The trained PyTorch model computed reference.json in float32. Its two best logits always differ by at least
// 0.02. Two correct implementations differ by 1e-5.
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

// The expected answers and prompt ids are the training script's, so the chat template is tested, too.
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

const std::string kDraft = TP_SOURCE_FOLDER "/model/demo/draft";

nlohmann::json config_of(const std::string& folder) {
  std::ifstream file(folder + "/config.json");
  return nlohmann::json::parse(file);
}

TEST(DemoModel, HasADraftModelOfHalfAMegabyteWithItsVocabulary) {
  EXPECT_LE(std::filesystem::file_size(kDraft + "/model.safetensors"), 500'000U);
  const nlohmann::json draft = config_of(kDraft);
  const nlohmann::json demo = config_of(TP_SOURCE_FOLDER "/model/demo");
  for (const char* const key : {"vocab_size", "bos_token_id", "eos_token_id", "max_position_embeddings"})
    EXPECT_EQ(draft.at(key), demo.at(key)) << key;
}

// The stored weights predict nearly nine of ten tokens. Without training, it would be one in 1536.
TEST(DemoModel, ItsDraftModelPredictsMostTokens) {
  std::vector<nlohmann::json> said;
  std::string requests;
  const nlohmann::json expected = reference();
  for (const nlohmann::json& prompt : expected.at("prompts")) {
    nlohmann::json ids = prompt.at("prompt_ids");
    for (const nlohmann::json& token : prompt.at("continuation_ids")) {
      requests += nlohmann::json{{"ids", ids}, {"max_tokens", 1}}.dump() + "\n";
      said.push_back(token);
      ids.push_back(token);
    }
  }
  ASSERT_GT(said.size(), 50U);
  const TemporaryDirectory directory;
  const Finished finished = run(kNoMpirun, {"generate", "--model", kDraft, "--batch",
                                            directory.write("requests.jsonl", requests), "--greedy"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  std::size_t right = 0;
  for (const nlohmann::json& line : json_lines(finished.out))
    right += line.at("token_ids").at(0) == said.at(line.at("index").get<std::size_t>()) ? 1U : 0U;
  EXPECT_GT(right * 4, said.size() * 3);
}

}  // namespace
}  // namespace tp::test
