// Hosts with little shared memory, like containers.

#include "parallel/machine/file_text.h"
#include "tests/environment_variable.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

// Returns a shell command that runs its arguments with a /dev/shm of this size.
std::vector<std::string> with_shared_memory(const std::string& size,
                                            const std::vector<std::string>& command) {
  std::vector<std::string> all = {
      "unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=" + size + " tmpfs /dev/shm && exec \"$@\"",
      "sh"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

bool can_mount() { return Process(with_shared_memory("1m", {"true"})).finish().status == 0; }

TEST(LittleSharedMemory, CostsSpeedOnly) {
  if (!can_mount()) GTEST_SKIP() << "only root may mount another /dev/shm";
  const TextModel model;
  const Arguments arguments = {"generate", "--model", model.path(), "--prompt",     "Hi",
                               "--greedy", "--json",  "--verbose",  "--max-tokens", "20"};
  const std::string expected = json_lines(run(2, arguments).out).at(0).at("text");
  for (const std::string size : {"64k", "1m", "64m"}) {
    for (const std::size_t ranks : {2, 4}) {
      SCOPED_TRACE(size + ", " + std::to_string(ranks) + " ranks");
      const Finished finished = Process(with_shared_memory(size, command_line(ranks, arguments))).finish();
      EXPECT_EQ(finished.status, 0) << finished.err;
      EXPECT_EQ(json_lines(finished.out).at(0).at("text"), expected);
      const std::string note =
          "all-reduces use MPI messages, not shared memory: no 516 KiB of /dev/shm for each rank: No space";
      EXPECT_EQ(finished.err.find(note) != std::string::npos, size != "64m") << finished.err;
    }
  }
}

// Sums in a different order differ in their last bits, and so do logits. If the order depended on the first
// rank to arrive, one run in six would have different bits.
TEST(Logits, HaveTheSameBitsWithEveryWayOfAllReduces) {
  const TemporaryDirectory directory;
  const std::filesystem::path model = fixture_folder("llama-gqa-bf16");
  std::set<std::string> contents;
  for (int i = 0; i < 20; ++i) {
    const EnvironmentVariable variable("TP_ALL_REDUCE", i % 2 == 0 ? "shared" : "messages");
    const std::filesystem::path output = directory.path() / "logits.npy";
    expect_success(
        run(4, {"logits", "--model", model, "--tokens", model / "prompt.json", "--output", output}));
    contents.insert(file_text(output));
  }
  EXPECT_EQ(contents.size(), 1U);
}

TEST(Logits, RejectUnknownWaysOfAllReduces) {
  const EnvironmentVariable variable("TP_ALL_REDUCE", "fast");
  const std::filesystem::path model = fixture_folder("llama-gqa-bf16");
  expect_one_line(
      run(2, {"logits", "--model", model, "--tokens", model / "prompt.json", "--output", "/dev/null"}), 1,
      "TP_ALL_REDUCE must be shared or messages, found \"fast\"");
}

}  // namespace
}  // namespace tp::test
