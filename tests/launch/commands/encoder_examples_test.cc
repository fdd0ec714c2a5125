// The commands in the guide's section on encoders, run like a user would.
#include "tests/doc_example.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/run_line.h"
#include "tests/launch/text_encoder.h"
#include "tests/launch/text_model.h"
#include "tests/reference/fixture.h"

#include <sstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;

// Returns a suitable model for the command, of a kind in the section's table.
std::string fitting_model(const std::string& command, const std::string& line) {
  if (line.find("--task") != line.npos) return "jina-v3-lora";
  if (command == "rank" || command == "classify") return "xlmroberta-reranker";
  return command == "fill-mask" || command == "logits" ? "albert-mlm" : "bert-embed-mean";
}

// Returns the word after "tp-infer" in the line.
std::string command_of(const std::string& line) {
  std::istringstream words(line.substr(line.find("tp-infer ") + 9));
  std::string command;
  words >> command;
  return command;
}

TEST(Encoders, RunTheGuidesExamples) {
  std::vector<std::string> commands;
  for (const std::string& line : doc_example_lines("model/README.md", "## Encoders")) {
    const std::string command = command_of(line);
    SCOPED_TRACE(line);
    const TextEncoder model(fitting_model(command, line));
    const TemporaryDirectory folder;
    fs::create_directory_symlink(model.path(), folder.path() / "DIR");
    folder.write("texts.txt", "red sky\nblue sky, green sky\n");
    folder.write("documents.txt", "red sky\nblue\n\"green\"\n");
    folder.write("ids.json", R"({"ids": [1, 10, 13, 2]})");
    const Finished finished = run_line(line, folder.path());
    EXPECT_EQ(finished.status, 0) << finished.err;
    const bool writes_file = line.find("--output") != line.npos;
    EXPECT_EQ(finished.out.empty(), writes_file) << finished.out;
    if (writes_file) {
      EXPECT_GT(fs::file_size(folder.path() / (command == "embed" ? "vectors.npy" : command + ".npy")), 128U);
    }
    commands.push_back(command);
  }
  EXPECT_EQ(commands, (std::vector<std::string>{"embed", "embed", "embed", "rank", "classify", "fill-mask",
                                                "hidden", "logits"}));
}

// Covers every kind of model and every unsuitable command.
TEST(Encoders, EveryUnsuitableCommandNamesTheSuitableOnes) {
  struct Case {
    std::string model;
    std::string kind;
    std::vector<Arguments> commands;  // commands without --model
    std::string fitting;
  };
  const TemporaryDirectory directory;
  const std::string ids = directory.write("ids.json", "[1, 2, 3]");
  const std::string encoders = reference::seeded_folder("encoders").parent_path().string();
  const Arguments generate = {"generate", "--tokens", ids};
  const Arguments chat = {"chat"};
  const Arguments perplexity = {"perplexity", "--tokens", ids};
  const Arguments logits = {"logits", "--tokens", ids, "--output", (directory.path() / "x.npy").string()};
  const Arguments fill_mask = {"fill-mask", "--tokens", ids};
  const Arguments classify = {"classify", "--tokens", ids};
  const Arguments rank = {"rank", "--batch", ids};
  const std::vector<Case> cases = {
      {encoders + "/bert-embed-mean",
       "an encoder",
       {generate, chat, perplexity, logits, fill_mask, classify, rank},
       "use tp-infer hidden, embed with it"},
      {encoders + "/albert-mlm",
       "a masked language model",
       {generate, chat, perplexity, classify, rank},
       "use tp-infer logits, hidden, embed, fill-mask with it"},
      {encoders + "/xlmroberta-reranker",
       "a sequence classifier",
       {generate, chat, perplexity, fill_mask},
       "use tp-infer logits, hidden, embed, classify, rank with it"},
      {fixture_folder("llama-gqa").string(),
       "a decoder",
       {fill_mask, classify, rank},
       "use tp-infer generate, perplexity, logits, hidden, embed with it"},
  };
  for (const Case& one : cases) {
    for (Arguments arguments : one.commands) {
      SCOPED_TRACE(one.kind + ": " + arguments.front());
      arguments.insert(arguments.end(), {"--model", one.model});
      const Finished finished = run(kNoMpirun, arguments);
      expect_one_error(finished, 1, one.fitting);
      EXPECT_CONTAINS(finished.err, "found " + one.kind);
    }
  }
}

}  // namespace
}  // namespace tp::test
