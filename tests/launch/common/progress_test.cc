// Progress bars of long commands: only at a terminal.

#include "launch/common/progress_line.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <optional>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

class Progress : public testing::Test {
 protected:
  Finished run_at_terminal(std::size_t ranks, const Arguments& arguments) const {
    return run(ranks, arguments, {.keep_input_open = true, .on_terminal = true});
  }

  // Enough requests that the bar is drawn at least once.
  std::string requests() const {
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += "{\"prompt\": \"x\", \"max_tokens\": 30, \"ignore_eos\": true}\n";
    return directory_.write("requests", lines);
  }

  std::string output() const { return (directory_.path() / "output").string(); }

  TextModel model_;
  TemporaryDirectory directory_;
};

TEST(ProgressLine, FitsATerminalOfAnyWidth) {
  EXPECT_EQ(progress_line("loading", 0.5, ", 4 s left", 80),
            "loading [===============               ]  50%, 4 s left");
  EXPECT_EQ(progress_line("loading", 0.5, ", 4 s left", 40), "loading [=======       ]  50%, 4 s left");
  EXPECT_EQ(progress_line("loading", 0.5, ", 4 s left", 30), "loading  50%, 4 s left")
      << "too narrow for a bar";
  EXPECT_EQ(progress_line("loading", 0.5, ", 4 s left", 12), "loading  50");
  EXPECT_EQ(progress_line("generating", std::nullopt, ", 7 requests", 80), "generating, 7 requests");
}

TEST(ProgressLine, GivesTimesInTheirUsualUnits) {
  EXPECT_EQ(format_duration(0.9), "0 s");
  EXPECT_EQ(format_duration(59.9), "59 s");
  EXPECT_EQ(format_duration(200), "3:20 min");
  EXPECT_EQ(format_duration(7500), "2:05 h");
}

TEST_F(Progress, CountsABatchsRequestsAndTokens) {
  const Arguments batch = {"generate", "--model", model_.path(), "--batch", requests(), "--output", output()};
  for (const std::size_t ranks : {kNoMpirun, std::size_t{2}}) {
    const Finished shown = run_at_terminal(ranks, batch);
    EXPECT_EQ(shown.status, 0);
    EXPECT_CONTAINS(shown.out, "generating [");
    EXPECT_CONTAINS(shown.out, "%, 0/40 requests, ");
    EXPECT_CONTAINS(shown.out, " tokens/s");
    EXPECT_CONTAINS(shown.out, "\r\x1b[K");
    expect_success(run(ranks, batch));
  }
}

TEST_F(Progress, IsHiddenIfABatchsResultsGoToTheTerminal) {
  const Finished shown =
      run_at_terminal(kNoMpirun, {"generate", "--model", model_.path(), "--batch", requests()});
  EXPECT_EQ(shown.status, 0);
  EXPECT_EQ(shown.out.find("generating ["), std::string::npos);
}

TEST_F(Progress, IsShownByOtherCommands) {
  const std::string text = directory_.write("text", std::string(3000, 'x'));
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"perplexity", "--model", model_.path(), "--file", text, "--window", "64"}, "measuring perplexity ["},
      {{"bench", "--model", model_.path(), "--prompt", "8", "--generate", "4", "--repeat", "2"},
       "measuring ["},
      {{"quantize", "--model", model_.path(), "--weights", "int8", "--output", output() + ".gguf"},
       "quantizing ["},
  };
  for (const auto& [arguments, bar] : cases) {
    const Finished shown = run_at_terminal(kNoMpirun, arguments);
    EXPECT_EQ(shown.status, 0) << shown.out;
    EXPECT_CONTAINS(shown.out, bar);
  }
}

}  // namespace
}  // namespace tp::test
