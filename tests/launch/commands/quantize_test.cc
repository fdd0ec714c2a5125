// GGUF files that the program writes from checkpoints.
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/temporary_directory.h"

#include <filesystem>
#include <utility>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

const std::string kDemo = TP_SOURCE_FOLDER "/model/demo";

Arguments quantize(const std::string& weights, const std::filesystem::path& output, Arguments more = {}) {
  Arguments arguments = {"quantize", "--model", kDemo, "--weights", weights, "--output", output.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json token_ids(const std::string& model, std::size_t ranks, const Arguments& more = {}) {
  Arguments arguments = {"generate", "--model",      model, "--prompt", "Once upon a time",
                         "--greedy", "--max-tokens", "40",  "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return json_lines(run(ranks, arguments).out).at(0).at("token_ids");
}

// The command is the one in README.md.
TEST(Quantize, WritesAFileThatGeneratesTheSameStories) {
  const TemporaryDirectory directory;
  const std::filesystem::path f32 = directory.path() / "f32.gguf";
  const Finished finished = run(kNoMpirun, quantize("f32", f32));
  expect_success(finished);
  EXPECT_TRUE(finished.out.starts_with(f32.string() + ": ")) << finished.out;
  EXPECT_CONTAINS(finished.out, "32.00 bits per weight");
  EXPECT_EQ(token_ids(f32.string(), kNoMpirun), token_ids(kDemo, kNoMpirun, {"--weights", "f32"}));
  const std::filesystem::path mix = directory.path() / "q4_k_m.gguf";
  expect_success(run(2, quantize("q4_k_m", mix)));
  EXPECT_EQ(token_ids(mix.string(), 2).size(), 40U);
  EXPECT_EQ(directory.files().size(), 2U);
}

TEST(Quantize, SummarizesTheWrittenTypes) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "model.gguf";
  const Finished finished = run(kNoMpirun, quantize("int8", file, {"--json"}));
  expect_success(finished);
  const nlohmann::json report = nlohmann::json::parse(finished.out);
  EXPECT_EQ(report.at("path"), file.string());
  EXPECT_EQ(report.at("bytes"), std::filesystem::file_size(file));
  EXPECT_EQ(report.at("types").at(0).at("type"), "Q8_0");
  EXPECT_NEAR(report.at("bits_per_weight").get<double>(), 8.5, 0.05);
  const nlohmann::json inspected =
      nlohmann::json::parse(run(kNoMpirun, {"inspect", "--model", file.string(), "--json"}).out);
  EXPECT_EQ(inspected.at("weights"), "int8");
}

TEST(Quantize, KeepsTheTemplateForTools) {
  const TemporaryDirectory directory;
  std::filesystem::copy(kDemo, directory.path());
  std::filesystem::create_directory(directory.path() / "additional_chat_templates");
  directory.write("additional_chat_templates/tool_use.jinja", "{{ tools | length }} tools");
  const std::string file = (directory.path() / "model.gguf").string();
  expect_success(run(
      kNoMpirun, {"quantize", "--model", directory.path().string(), "--weights", "int8", "--output", file}));
  const Finished finished = run(kNoMpirun, {"render-chat", "--model", file, "--messages", "-"},
                                {.input = R"({"messages": [], "tools": [{}, {}]})"});
  expect_success(finished);
  EXPECT_EQ(finished.out, "2 tools");
}

TEST(Quantize, ReplacesAFileOnlyWithForce) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.write("model.gguf", "precious");
  expect_one_line(
      run(kNoMpirun, quantize("int8", file)), 1,
      "model.gguf: expected an unused name, found a file; give --force to replace it, or another --output");
  EXPECT_EQ(std::filesystem::file_size(file), 8U);
  expect_success(run(kNoMpirun, quantize("int8", file, {"--force"})));
  EXPECT_GT(std::filesystem::file_size(file), 8U);
  // The command never replaces its own input.
  expect_one_line(run(kNoMpirun, {"quantize", "--model", file.string(), "--weights", "q4_0", "--output",
                                  file.string(), "--force"}),
                  1, "expected a separate file for --output, found one of the model; give another file");
  EXPECT_EQ(directory.files().size(), 1U);
}

// The example in the help: one GGUF file next to another.
TEST(Quantize, ReplacesAnotherModelInItsInputsFolder) {
  const TemporaryDirectory directory;
  const std::filesystem::path input = directory.path() / "a.gguf";
  expect_success(run(kNoMpirun, quantize("int8", input)));
  const std::filesystem::path other = directory.write("b.gguf", "precious");
  EXPECT_EQ(run(kNoMpirun, {"quantize", "--model", input.string(), "--weights", "int8", "--output",
                            other.string(), "--force"})
                .status,
            0);
  EXPECT_GT(std::filesystem::file_size(other), 8U);
}

TEST(Quantize, ReplacesAGgufFileInTheFolderOfItsCheckpoint) {
  const TemporaryDirectory directory;
  for (const auto& file : std::filesystem::directory_iterator(kDemo))
    std::filesystem::create_symlink(file.path(), directory.path() / file.path().filename());
  const std::filesystem::path output = directory.write("model.gguf", "precious");
  expect_success(run(kNoMpirun, {"quantize", "--model", directory.path(), "--weights", "int8", "--output",
                                 output.string(), "--force"}));
  EXPECT_GT(std::filesystem::file_size(output), 8U);
}

TEST(Quantize, ReplacesNoPartOfItsInput) {
  const TemporaryDirectory directory;
  const std::string first = directory.write("a-00001-of-00002.gguf", "precious");
  const std::string second = directory.write("a-00002-of-00002.gguf", "precious");
  for (const auto& [input, output] : {std::pair(first, second), std::pair(second, first)}) {
    expect_one_line(
        run(kNoMpirun, {"quantize", "--model", input, "--weights", "q4_0", "--output", output, "--force"}), 1,
        "expected a separate file for --output, found one of the model; give another file");
  }
}

TEST(Quantize, NamesTheSupportedTypes) {
  expect_one_line(run(kNoMpirun, quantize("q4k", "x.gguf")), 2, "found q4k; did you mean q4_k?");
  expect_one_line(run(kNoMpirun, quantize("q4_k", "x.bin")), 2,
                  "expected a name that ends in .gguf, found \"x.bin\"");
  expect_one_line(
      run(kNoMpirun, quantize("q4_k", "/nowhere/x.gguf")), 1,
      "cannot write /nowhere/x.gguf: expected a folder in which files can be created, found: No such "
      "file or directory; give another --output");
}

}  // namespace
}  // namespace tp::test
