#include "runtime/gateway/program_files.h"

#include "tests/model/weights/checkpoint_files.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

// An upgrade replaces the file at a path, or the target of a link.
TEST(ProgramFiles, ShowAnUpgrade) {
  namespace fs = std::filesystem;
  const test::TemporaryDirectory folder;
  const fs::path program = folder.write("tp-infer", "old");
  const fs::path other = folder.write("new", "new");
  const auto identity = [&] {
    return identity_of_programs({"mpirun", "-np", "2", program.string(), "serve"});
  };
  const std::string before = identity();
  EXPECT_EQ(identity(), before);
  fs::rename(other, program);
  const std::string after = identity();
  EXPECT_NE(after, before);
  fs::remove(program);
  EXPECT_NE(identity(), after);
  EXPECT_NE(identity_of_programs({"sh", "-c", "x"}), identity_of_programs({"no-such-program", "-c", "x"}));
}

}  // namespace
}  // namespace tp
