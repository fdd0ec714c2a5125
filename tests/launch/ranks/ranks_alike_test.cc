// Ranks that mpirun started with different commands: one message, all ranks end, exit status 1.

#include "parallel/machine/file_text.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <fstream>
#include <utility>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;

// Runs each of the commands on one rank.
Finished run_by_rank(const std::vector<std::vector<std::string>>& commands) {
  std::vector<std::string> command = command_line(commands.size(), {});
  command.pop_back();  // the program
  return Process(by_rank(std::move(command), commands)).finish();
}

// Runs tp-infer with each of the arguments on one rank.
Finished run_side_by_side(const std::vector<Arguments>& ranks) {
  std::vector<std::vector<std::string>> commands;
  for (const Arguments& arguments : ranks) commands.push_back(command_line(kNoMpirun, arguments));
  return run_by_rank(commands);
}

Arguments continue_text(const fs::path& model, const Arguments& more = {}) {
  Arguments arguments = {"generate", "--model", model, "--prompt", "Hi", "--greedy", "--max-tokens", "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(RanksStartedDifferently, RunAnotherSubcommand) {
  const TextModel model;
  const std::string advice = "; start all ranks with one command line";
  expect_one_error(
      run_side_by_side({continue_text(model.path()), {"inspect"}}), 1,
      "tp-infer: [rank 1/2] all ranks must run the same subcommand, found inspect and, on rank 0, "
      "generate" +
          advice);
  expect_one_error(
      run_side_by_side({{"inspect"}, {"inspect"}, continue_text(model.path())}), 1,
      "[rank 2/3] all ranks must run the same subcommand, found generate and, on rank 0, inspect");
  expect_one_error(run_side_by_side({continue_text(model.path()), {"--version"}}), 1,
                   "found --version and, on rank 0, generate");
  expect_one_error(run_side_by_side({continue_text(model.path()), {"bench"}}), 1,
                   "found bench and, on rank 0, generate");
}

TEST(RanksStartedDifferently, HaveAnotherOption) {
  const TextModel model;
  expect_one_error(
      run_side_by_side({continue_text(model.path()), continue_text(model.path(), {"--seed", "7"})}), 1,
      "[rank 1/2] all ranks must have the same options, found --seed 7 and, on rank 0, not given; "
      "start all ranks with one command line");
  expect_one_error(
      run_side_by_side({continue_text(model.path()), continue_text(model.path(), {"--max-tokens", "5"})}), 1,
      "found --max-tokens 5 and, on rank 0, 4;");
}

// Copies the program with different digits in its commit.
TEST(RanksStartedDifferently, RunAnotherBuildOfTheSameVersion) {
  const std::string version = run(kNoMpirun, {"--version"}).out;
  const std::string commit =
      version.substr(version.find("commit ") + 7, version.rfind(')') - version.find("commit ") - 7);
  std::string bytes = file_text(TP_INFER_PROGRAM);
  const std::string other(commit.size(), '7');
  std::size_t replaced = 0;
  for (std::size_t at = bytes.find(commit); at != bytes.npos; at = bytes.find(commit, at + 1), ++replaced)
    bytes.replace(at, commit.size(), other);
  if (replaced == 0) GTEST_SKIP() << "the program is linked with a shared library";
  const TextModel model;
  const TemporaryDirectory folder;
  const fs::path program = folder.write("tp-infer", bytes);
  fs::permissions(program, fs::perms::owner_all);
  const std::vector<std::string> command = command_line(kNoMpirun, continue_text(model.path()));
  std::vector<std::string> odd = command;
  odd.front() = program.string();
  const Finished finished = run_by_rank({command, odd});
  expect_one_error(finished, 1, "tp-infer: [rank 1/2] all ranks must run the same program, found tp-infer ");
  EXPECT_CONTAINS(finished.err, "commit " + other);
  EXPECT_CONTAINS(finished.err, "commit " + commit);
}

TEST(RanksStartedDifferently, HaveAWrongOption) {
  const TextModel model;
  const Finished finished =
      run_side_by_side({continue_text(model.path()), continue_text(model.path(), {"--max-tokens", "-5"})});
  expect_one_line(finished, 2, "--max-tokens: expected a whole number from 1 to 2147483647, found -5");
  EXPECT_CONTAINS(finished.err, "[rank 1/2]");
}

TEST(RanksStartedDifferently, MayReadTheModelElsewhereAndHaveOtherThreads) {
  const CheckpointCopies copies;
  const fs::path here = copies.copy("llama-gqa-bf16", "here");
  const fs::path there = copies.copy("llama-gqa-bf16", "there");
  const auto logits_of = [&](const fs::path& model) {
    return Arguments{"logits", "--model", model, "--tokens", here / "prompt.json", "--output", "/dev/null"};
  };
  expect_success(run_side_by_side({logits_of(here), logits_of(there)}));

  std::fstream file(there / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  const auto byte = static_cast<char>(file.seekg(-1001, std::ios::end).get() ^ 1);
  file.seekp(-1001, std::ios::end).put(byte);
  file.close();
  expect_one_error(run_side_by_side({logits_of(here), logits_of(there)}), 1,
                   "the ranks disagree about the checkpoint in " + here.string() + ": rank 0 has ");
}

// Returns the demo model's logits from ranks with these instruction sets.
std::string same_bits_of(const std::vector<std::string>& ranks, std::string* err = nullptr) {
  const TextModel model;
  const fs::path tokens = fs::path(model.path()) / "ids.json";
  const fs::path output = fs::path(model.path()) / "logits.npy";
  std::ofstream(tokens) << "[1, 2, 3, 4, 5]";
  std::vector<std::vector<std::string>> commands;
  for (const std::string& isa : ranks) {
    commands.push_back(command_line(kNoMpirun, {"logits", "--model", model.path(), "--same-bits", "--verbose",
                                                "--tokens", tokens, "--output", output}));
    commands.back().insert(commands.back().begin(), {"env", "TP_ISA=" + isa});
  }
  const Finished finished = run_by_rank(commands);
  EXPECT_EQ(finished.status, 0) << finished.err;
  if (err != nullptr) *err = finished.err;
  return file_text(output);
}

TEST(SameBits, EqualOneRanksOnAnyNumberOfRanks) {
  const std::string one = same_bits_of({""});
  EXPECT_GT(one.size(), 5 * sizeof(float));
  EXPECT_EQ(same_bits_of({"", ""}), one);
  EXPECT_EQ(same_bits_of({"", "", ""}), one);
}

TEST(RanksStartedDifferently, TakeTheInstructionSetThatAllHaveForTheSameBits) {
  const std::string portable = same_bits_of({"portable"});
  std::string err;
  EXPECT_EQ(same_bits_of({"", "portable"}, &err), portable) << "an empty TP_ISA is the machine's best";
  EXPECT_CONTAINS(err, "--same-bits: as from any ranks with this program and kernels for portable");
}

}  // namespace
}  // namespace tp::test
