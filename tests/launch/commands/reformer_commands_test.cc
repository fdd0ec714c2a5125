// Commands with a Reformer.
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/reference/fixture.h"
#include "tests/reference/npy_array.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

class ReformerCommands : public testing::Test {
 protected:
  std::string model() const { return fixture_.folder.string(); }
  std::string prompt() const { return (fixture_.folder / "prompt.json").string(); }

  std::vector<float> logits(std::size_t ranks, const Arguments& more = {}) {
    const std::string output = (directory_.path() / "x.npy").string();
    Arguments arguments = {"logits", "--model", model(), "--tokens", prompt(), "--output", output};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_success(run(ranks, arguments));
    return read_npy(output).values;
  }

  TemporaryDirectory directory_;
  const reference::Fixture fixture_ = reference::fixture("reformer");
};

TEST_F(ReformerCommands, LogitsMatchTheOriginalCodeOnSeveralRanks) {
  for (const std::size_t ranks : {0U, 3U}) {
    EXPECT_LE(fixture_.rows.difference(logits(ranks)), 1e-4) << ranks << " ranks";
  }
}

TEST_F(ReformerCommands, HasTheSameBitsOnAnyRanks) {
  const std::vector<float> one = logits(1, {"--same-bits"});
  EXPECT_EQ(logits(3, {"--same-bits", "--threads", "2"}), one);
}

// With several sequences, every token depends only on its own sequence, and on all of it.
TEST_F(ReformerCommands, GenerateTheOriginalCodesGreedyTokensInAnyBatch) {
  std::string lines;
  for (int id = 0; id < 5; ++id) {
    json line = {
        {"id", id}, {"ids", fixture_.prompt}, {"max_tokens", 16}, {"temperature", 0}, {"ignore_eos", true}};
    if (id % 2 == 1) line["ids"] = std::vector<TokenId>{5, 6, 7};
    lines += line.dump() + "\n";
  }
  for (const std::size_t ranks : {2U, 3U}) {
    const Finished finished = run(ranks, {"generate", "--model", model(), "--batch", "-"}, {.input = lines});
    expect_success(finished);
    const std::vector<json> results = json_lines(finished.out);
    ASSERT_EQ(results.size(), 5U);
    for (const json& result : results) {
      if (result.at("id").get<int>() % 2 == 0) {
        EXPECT_EQ(result.at("token_ids").get<std::vector<TokenId>>(), fixture_.greedy) << ranks << " ranks";
      }
    }
  }
}

TEST_F(ReformerCommands, HiddenStatesHaveBothStreams) {
  const std::string output = (directory_.path() / "hidden.npy").string();
  expect_success(run(2, {"hidden", "--model", model(), "--tokens", prompt(), "--output", output}));
  EXPECT_EQ(read_npy(output).shape, (std::vector<std::size_t>{fixture_.prompt.size(), 96}));
}

TEST_F(ReformerCommands, UnsupportedOptionsAreOneError) {
  const std::string output = (directory_.path() / "x.npy").string();
  expect_one_error(
      run(1, {"logits", "--bidirectional", "--model", model(), "--tokens", prompt(), "--output", output}), 1,
      "layers in which a token never sees later tokens; use causal attention");
  expect_one_error(run(2, {"generate", "--pipeline", "2", "--model", model(), "--tokens", prompt()}), 1,
                   "cannot divide ReformerModelWithLMHead into 2 pipeline stages");
}

TEST_F(ReformerCommands, InspectAndBenchKnowIt) {
  const Finished inspected = run(kNoMpirun, {"inspect", "--model", model(), "--json", "--ranks", "3"});
  expect_success(inspected);
  EXPECT_EQ(json::parse(inspected.out).at("parameters"), 108416);
  const Finished measured =
      run(2, {"bench", "--model", model(), "--prompt", "24", "--generate", "4", "--json"});
  EXPECT_EQ(measured.status, 0) << measured.err;
}

}  // namespace
}  // namespace tp::test
