// Failures of one rank or of all ranks: one message, all ranks end, exit status 1.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "model.safetensors";

Arguments logits_of(const fs::path& model) {
  return {
      "logits",   "--model",  model, "--tokens", (fixture_folder("llama-gqa-bf16") / "prompt.json").string(),
      "--output", "/dev/null"};
}

// Breaks a copy of a checkpoint and expects its error on 1 to 4 ranks.
void expect_refused(const std::function<void(const fs::path&)>& break_it, const std::string& message) {
  const CheckpointCopies copies;
  const fs::path folder = copies.copy("llama-gqa-bf16", "model");
  break_it(folder);
  run_at_once({0, 1, 2, 3, 4}, logits_of(folder),
              [&](const Finished& finished) { expect_one_error(finished, 1, message); });
}

// Returns a shell script that gives rank `odd` a different working directory.
std::string script_for_odd_rank(const TemporaryDirectory& directory, int odd) {
  const fs::path script = directory.write(
      "in_own_folder.sh", "#!/bin/sh\nif [ \"$OMPI_COMM_WORLD_RANK\" = " + std::to_string(odd) +
                              " ]; then cd odd; else cd usual; fi\nexec \"$@\"\n");
  fs::permissions(script, fs::perms::owner_all);
  return script;
}

// Starts three ranks. The third finds a different checkpoint under the same path.
Finished run_with_odd_rank(const CheckpointCopies& copies) {
  const TemporaryDirectory directory;
  const std::string script = script_for_odd_rank(directory, 2);
  Process process(command_line(3, logits_of("model"), script), {.folder = copies.path()});
  return process.finish();
}

TEST(FailingTogether, AMissingCheckpoint) {
  run_at_once({0, 1, 2, 3, 4}, logits_of("/proc/nonexistent/model"), [](const Finished& finished) {
    expect_one_error(finished, 1,
                     "cannot open /proc/nonexistent/model: no such file or folder; check the path");
  });
}

TEST(FailingTogether, ACheckpointWithoutWeights) {
  expect_refused([](const fs::path& folder) { fs::remove(folder / kWeights); },
                 "there is neither model.safetensors nor model.safetensors.index.json");
}

TEST(FailingTogether, ATruncatedHeader) {
  expect_refused([](const fs::path& folder) { fs::resize_file(folder / kWeights, 1000); },
                 "bytes, but the file only 1000; it is truncated, download it again");
}

TEST(FailingTogether, TruncatedData) {
  expect_refused([](const fs::path& folder) { fs::resize_file(folder / kWeights, 100000); },
                 "it is truncated, download it again");
}

TEST(FailingTogether, AShapeThatDiffersFromTheConfigs) {
  expect_refused(
      [](const fs::path& folder) {
        change_config(folder, {{"intermediate_size", 200}});
      },
      "model.safetensors: model.layers.0.mlp.gate_proj.weight is [256, 96], expected [200, 96] "
      "(intermediate_size, hidden_size)");
}

TEST(FailingTogether, AnUnsupportedFamily) {
  expect_refused(
      [](const fs::path& folder) {
        change_config(folder, {{"architectures", {"WhisperModel"}}});
      },
      "models of the family WhisperModel are not supported; supported are ");
}

TEST(FailingTogether, MoreRanksThanHeads) {
  const TextModel model;
  expect_one_error(
      run(5, {"generate", "--model", model.path(), "--prompt", "x"}), 1,
      "cannot divide the model over 5 ranks: it has 4 attention heads, so at most 4 ranks can each own one "
      "(mpirun -np 4)");
}

TEST(FailingTogether, ACheckpointThatOneRankCannotRead) {
  const CheckpointCopies copies;
  copies.copy("llama-gqa-bf16", "usual/model");
  const fs::path odd = copies.copy("llama-gqa-bf16", "odd/model");
  fs::remove(odd / kWeights);
  expect_one_error(run_with_odd_rank(copies), 1,
                   "tp-infer: [rank 2/3] model: there is neither model.safetensors");
  fs::copy_file(fixture_folder("llama-gqa-bf16") / kWeights, odd / kWeights);
  fs::permissions(odd / kWeights, fs::perms::owner_all);
  fs::resize_file(odd / kWeights, 200000);
  expect_one_error(run_with_odd_rank(copies), 1, "tp-infer: [rank 2/3] model.safetensors: tensor ");
}

TEST(FailingTogether, ADifferentCheckpointOnOneRank) {
  const CheckpointCopies copies;
  copies.copy("llama-gqa-bf16", "usual/model");
  const fs::path odd = copies.copy("llama-gqa-bf16", "odd/model");
  // The file keeps its header, but its numbers change, as in a checkpoint of another training run.
  std::fstream file(odd / kWeights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096);
  file << std::string(500000, '\x3c');
  file.close();
  expect_one_error(run_with_odd_rank(copies), 1,
                   "the ranks disagree about the checkpoint in model: rank 0 has ");
}

// For Llama, instruction sets may differ: sums are computed once, and all ranks receive them.
TEST(FailingTogether, ExpertsOnRanksWithDifferentInstructionSets) {
  const TemporaryDirectory directory;
  const fs::path script =
      directory.write("odd_isa.sh",
                      "#!/bin/sh\n[ \"$OMPI_COMM_WORLD_RANK\" = 2 ] && export TP_ISA=portable "
                      "|| export TP_ISA=amx_emulated\nexec \"$@\"\n");
  fs::permissions(script, fs::perms::owner_all);
  const auto run_model = [&](const char* fixture) {
    Process process(command_line(3, logits_of(fixture_folder(fixture)), script),
                    {.folder = directory.path()});
    return process.finish();
  };
  expect_one_error(run_model("qwen2moe"), 1,
                   "the ranks disagree about the instruction set, on which the choice of experts depends: "
                   "rank 0 has amx_emulated, rank 2 has portable; ");
  expect_success(run_model("llama-gqa-bf16"));
}

// A rank whose address space can't grow fails when a longer prompt needs more memory.
void expect_an_end_without_memory(int rank, const std::string& message) {
  const TemporaryDirectory directory;
  nlohmann::json config = read_json(fixture_folder("llama-gqa") / "config.json");
  config.update({{"max_position_embeddings", 4096}, {"num_hidden_layers", 1}});
  const std::string path = directory.write("config.json", config.dump());
  // Larger blocks are mapped separately, freed memory is not kept for them, and no thread has a heap of its
  // own.
  const fs::path script = directory.write(
      "no_slack.sh", "#!/bin/sh\nexport MALLOC_MMAP_THRESHOLD_=65536 MALLOC_ARENA_MAX=1\nexec \"$@\"\n");
  fs::permissions(script, fs::perms::owner_all);
  Process process(command_line(3,
                               {"bench", "--synthetic", path, "--prompt", "4,800", "--batch", "40",
                                "--generate", "1", "--prefill-chunk", "32768", "--repeat", "60"},
                               script));
  const auto three_rows = [](const std::string& out) { return std::count(out.begin(), out.end(), '\n') > 3; };
  ASSERT_TRUE(process.wait_for_output(three_rows));
  const pid_t victim = process.rank(rank);
  ASSERT_NE(victim, -1);
  const rlimit no_more{0, RLIM_INFINITY};
  ASSERT_EQ(::prlimit(victim, RLIMIT_AS, &no_more, nullptr), 0);
  Finished finished = process.finish();
  finished.out.clear();  // drops earlier rows
  // The message is either "out of memory" or that MPI's call failed.
  expect_one_line(finished, 1, message);
  EXPECT_CONTAINS(finished.err, "memory");
}

TEST(FailingTogether, ARankThatRunsOutOfMemoryInTheMiddleOfAStep) {
  if (TP_SANITIZED) GTEST_SKIP() << kNoAddressLimits;
  expect_an_end_without_memory(1, "tp-infer: [rank 1/3");  // a host may follow
}

TEST(FailingTogether, RankZeroRunsOutOfMemoryInTheMiddleOfAStep) {
  if (TP_SANITIZED) GTEST_SKIP() << kNoAddressLimits;
  expect_an_end_without_memory(0, "tp-infer: ");
}

}  // namespace
}  // namespace tp::test
