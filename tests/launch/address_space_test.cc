// Limits of the address space, as batch systems set them.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;

class AddressSpace : public testing::Test {
 protected:
  void SetUp() override {
    if (TP_SANITIZED) GTEST_SKIP() << kNoAddressLimits;
  }

  // Runs tp-infer with at most so many MB of address space, with and without mpirun.
  void run_within(int megabytes, const std::string& isa, const Arguments& arguments,
                  const std::function<void(const Finished&)>& check) const {
    const fs::path script =
        directory_.write("limited.sh", "#!/bin/sh\nulimit -v " + std::to_string(megabytes * 1000) +
                                           "\nTP_ISA=" + isa + " exec \"$@\"\n");
    fs::permissions(script, fs::perms::owner_all);
    for (const std::size_t ranks : {kNoMpirun, std::size_t{2}})
      check(Process(command_line(ranks, arguments, script)).finish());
  }

 private:
  TemporaryDirectory directory_;
};

const Arguments kGenerate = {"generate",       "--prompt", "Once upon a time", "--max-tokens", "4",
                             "--cache-tokens", "512"};

// Hardly more than MPI itself does.
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

}  // namespace
}  // namespace tp::test
