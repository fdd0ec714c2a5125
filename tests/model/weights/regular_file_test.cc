// Pipes, folders and devices instead of files.
#include "model/files/regular_file.h"

#include "model/files/has_file.h"
#include "tests/error_of.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace tp {
namespace {

using test::TemporaryDirectory;

// Opening the pipe would wait for another process.
TEST(RegularFile, OpensNeitherPipesNorFoldersNorDevices) {
  const TemporaryDirectory folder;
  const std::filesystem::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::filesystem::path& path : {pipe, folder.path(), std::filesystem::path("/dev/zero")}) {
    EXPECT_EQ(RegularFile(path).error(), "it is not a regular file") << path;
    EXPECT_EQ(RegularFile(path).text(), "");
    EXPECT_FALSE(RegularFile(path, O_WRONLY).is_open());
  }
  EXPECT_FALSE(RegularFile(folder.path() / "none").error().empty());
  EXPECT_EQ(RegularFile(folder.write("file", "text")).text(), "text");
  EXPECT_FALSE(RegularFile("/proc/self/status").text().empty());
}

// Every file in a model's folder is checked like this before it is read.
TEST(RegularFile, ReplacesThePipesOfAModelsFolderByErrors) {
  const TemporaryDirectory folder;
  const std::filesystem::path pipe = folder.path() / "vocab.txt";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(
      test::error_of<CheckpointError>([&] { has_file(pipe); }),
      pipe.string() + ": expected a regular file, found a device, pipe or socket; copy its data to a file");
  EXPECT_TRUE(has_file(folder.path()));
  EXPECT_FALSE(has_file(folder.path() / "none"));
}

}  // namespace
}  // namespace tp
