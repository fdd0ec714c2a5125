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
// never closer than 0.009 on the way, and two honest implementations differ by 1e-5.
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

}  // namespace
}  // namespace tp::test
