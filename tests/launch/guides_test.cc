// The commands of the guides, in a folder where DIR is the demo model. Examples of other kinds of models, of
// servers and of hosts are in the tests of those.
#include "tests/doc_example.h"
#include "tests/launch/program.h"
#include "tests/launch/run_line.h"
#include "tests/model/weights/checkpoint_files.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;

class Guides : public testing::Test {
 protected:
  Guides() {
    fs::create_directory_symlink(fs::path(TP_SOURCE_FOLDER) / "model/demo", folder_.path() / "DIR");
    fs::create_directory_symlink(fs::path(TP_SOURCE_FOLDER) / "bench", folder_.path() / "bench");
    folder_.write("ids.json", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]");
    folder_.write("requests.jsonl", "{\"prompt\": \"One day\", \"max_tokens\": 5}\n");
    folder_.write("questions.txt", "A story, please.\n");
    folder_.write("conversation.json", R"({"messages": [{"role": "user", "content": "Hello"}]})");
  }

  // Runs the n-th block under the heading, and returns what it prints.
  std::string output_of(const std::string& guide, const std::string& heading, int n = 1) const {
    const std::string block = "HOME=$PWD\n" + doc_example(guide, heading, n);
    const Finished finished = run_line(block, folder_.path());
    EXPECT_EQ(finished.status, 0) << block << finished.err;
    return finished.out;
  }

  bool has(const std::string& name) const {
    return fs::exists(folder_.path() / name) && fs::file_size(folder_.path() / name) > 0;
  }

  TemporaryDirectory folder_;
};

TEST_F(Guides, TheFirstCommandsTellStories) {
  const std::string output = output_of("README.md", "## Start", 2);
  EXPECT_CONTAINS(output, "One rainy morning");
  EXPECT_CONTAINS(output, "num_attention_heads");
}

TEST_F(Guides, GenerateAndBatches) {
  EXPECT_CONTAINS(output_of("launch/README.md", "## Generate"), "Once upon a time");
  EXPECT_TRUE(has("continuations.jsonl"));
}

TEST_F(Guides, Chat) {
  output_of("launch/README.md", "## Chat");
  EXPECT_TRUE(has("answers.txt"));
  EXPECT_CONTAINS(output_of("launch/README.md", "### Chat templates"), "Hello");
}

TEST_F(Guides, Traces) {
  EXPECT_CONTAINS(output_of("launch/README.md", "## Where the time goes"), "Hello");
  EXPECT_TRUE(has("trace.json"));
}

TEST_F(Guides, SameBitsAndPipelines) {
  output_of("parallel/README.md", "## The same bits at every rank count");  // ends with cmp
  EXPECT_TRUE(has("three.npy"));
  EXPECT_CONTAINS(output_of("parallel/README.md", "## Pipelines"), "Once upon a time");
}

TEST_F(Guides, WritingGgufFilesAndPackedWeights) {
  EXPECT_CONTAINS(output_of("model/weights/README.md", "## Writing GGUF files"), "Once upon a time");
  EXPECT_TRUE(has("model-q4_k_m.gguf"));
  EXPECT_CONTAINS(output_of("model/weights/README.md", "## Loading"), "Hello");
  EXPECT_TRUE(fs::exists(folder_.path() / ".cache/tp-infer"));
}

TEST_F(Guides, Plans) {
  EXPECT_CONTAINS(output_of("runtime/plan/README.md", "# Predictions for machines you don't have yet"),
                  "a step that decodes 1:");
}

TEST_F(Guides, Measuring) {
  if (std::system("python3 --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no python3";
  const std::string output = output_of("bench/README.md", "## How to measure");
  EXPECT_CONTAINS(output, "of streaming");
  EXPECT_CONTAINS(output, "95 % confidence");
}

}  // namespace
}  // namespace tp::test
