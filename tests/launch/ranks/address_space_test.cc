// Limits of the address space, like those of batch systems.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;

class AddressSpace : public testing::Test {
 protected:
  void SetUp() override {
    if (TP_SANITIZED) GTEST_SKIP() << kNoAddressLimits;
  }

  // Runs tp-infer with at most this many MB of address space, with and without mpirun.
  void run_within(int megabytes, const std::string& isa, const Arguments& arguments,
                  const std::function<void(const Finished&)>& check) const {
    const std::string script = limited_to(megabytes, isa);
    for (const std::size_t ranks : {kNoMpirun, std::size_t{2}})
      check(Process(command_line(ranks, arguments, script)).finish());
  }

  // Runs the program without mpirun, with input, on kernels that need no OpenBLAS.
  Finished run_alone_within(int megabytes, const Arguments& arguments, const std::string& input) const {
    const std::string script = limited_to(megabytes, "amx_emulated");
    return Process(command_line(kNoMpirun, arguments, script), {.input = input}).finish();
  }

 private:
  std::string limited_to(int megabytes, const std::string& isa) const {
    const fs::path script =
        directory_.write("limited.sh", "#!/bin/sh\nulimit -v " + std::to_string(megabytes * 1000) +
                                           "\nTP_ISA=" + isa + " exec \"$@\"\n");
    fs::permissions(script, fs::perms::owner_all);
    return script;
  }

  TemporaryDirectory directory_;
};

const Arguments kGenerate = {"generate",       "--prompt", "Once upon a time", "--max-tokens", "4",
                             "--cache-tokens", "512"};

// The program needs hardly more than MPI itself.
TEST_F(AddressSpace, StartingNeedsLittle) {
  run_within(300, "", {"--version"}, [](const Finished& finished) { expect_success(finished); });
}

TEST_F(AddressSpace, KernelsOfTheProgramsOwnNeedNoRoomForOpenBlas) {
  run_within(600, "amx_emulated", kGenerate, [](const Finished& finished) { expect_success(finished); });
}

TEST_F(AddressSpace, OpenBlasIsRefusedWhereItsBuffersHaveNoRoom) {
  run_within(600, "portable", kGenerate, [](const Finished& finished) {
    expect_one_error(
        finished, 1,
        "cannot load OpenBLAS, which multiplies many tokens where there are only portable kernels: "
        "expected ");
  });
}

// The line alone takes two thirds of the space.
TEST_F(AddressSpace, ALineWithoutRoomEndsNoOtherThanItself) {
  const std::string request = "{\"prompt\": \"One\", \"max_tokens\": 2}\n";
  const std::string input = request + std::string(400'000'000, 'x') + "\n" + request;
  const Finished finished =
      run_alone_within(600, {"generate", "--batch", "-", "--cache-tokens", "512"}, input);
  EXPECT_EQ(finished.status, 1) << finished.err;
  const std::vector<nlohmann::json> lines = json_lines(finished.out);
  ASSERT_EQ(lines.size(), 3U) << finished.err;
  for (const nlohmann::json& line : lines) {
    EXPECT_EQ(line.contains("error"), line.at("index") == 1) << line;
    if (line.at("index") == 1) {
      EXPECT_CONTAINS(line.value("error", ""), "standard input:2: ");
    }
  }
}

// A heap for each thread would take 64 MB of addresses before the model's memory.
TEST_F(AddressSpace, NearTheNeedIsTheSameInEveryRun) {
  Arguments arguments = kGenerate;
  arguments.insert(arguments.end(), {"--threads", "4"});
  for (int time = 0; time < 5; ++time) {
    const Finished finished = run_alone_within(450, arguments, "");
    EXPECT_EQ(finished.status, 0) << finished.err;
  }
}

// The file has 200 MB of requests, but only few are in memory at a time.
TEST_F(AddressSpace, ABatchFileMayBeLargerThanMemory) {
  const TemporaryDirectory directory;
  const std::string line = "{\"prompt\": \"One\", \"max_tokens\": 1}" + std::string(4'000'000, ' ') + "\n";
  std::string content;
  for (int request = 0; request < 50; ++request) content += line;
  const std::string batch = directory.write("batch.jsonl", content);
  const std::string results = directory.path() / "results.jsonl";
  const Finished finished =
      run_alone_within(600, {"generate", "--batch", batch, "--output", results, "--cache-tokens", "512"}, "");
  expect_success(finished);
  std::ifstream written(results);
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(written), {}, '\n'), 50);
}

}  // namespace
}  // namespace tp::test
