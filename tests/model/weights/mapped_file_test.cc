#include "model/files/mapped_file.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/weights/resident_memory.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tp {
namespace {

using test::error_of;
using test::resident_file_bytes;
using test::TemporaryDirectory;

std::string file_content(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

unsigned sum_of(const MappedFile& file) {
  unsigned sum = 0;
  for (const std::byte byte : file.bytes()) sum += std::to_integer<unsigned>(byte);
  return sum;
}

TEST(MappedFile, HoldsTheFilesBytesAndName) {
  const TemporaryDirectory directory;
  const MappedFile file(directory.write("some.bin", "hello"));
  EXPECT_EQ(file_content(file), "hello");
  EXPECT_EQ(file.name(), "some.bin");
}

TEST(MappedFile, SaysThatAFileIsMissing) {
  const TemporaryDirectory directory;
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { MappedFile(directory.path() / "none"); }), "no such file");
}

TEST(MappedFile, RefusesADirectoryAnEmptyFileAndAPipe) {
  const TemporaryDirectory directory;
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { MappedFile(directory.path()); }), "found a directory");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { MappedFile(directory.write("empty", "")); }),
                  "the file is empty");
  const auto pipe = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { MappedFile{pipe}; }), "expected a regular file");
}

TEST(MappedFile, SaysThatAFileMayNotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const TemporaryDirectory directory;
  const auto path = directory.write("secret", "text");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { MappedFile{path}; }), "check its permissions");
}

// Bytes that differ from their neighbours, and from the next page.
std::string some_text(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 4096);
  return text;
}

// Returns the copied text. Continuing readers and others must get the same text.
std::string copied(const MappedFile& file, Range range) {
  std::string text(range.size(), '\0');
  file.copy(range.begin, std::as_writable_bytes(std::span(text)), file.bytes().size());
  std::string same(range.size(), '\0');
  file.copy(range.begin, std::as_writable_bytes(std::span(same)), range.end);
  EXPECT_TRUE(text == same);
  return text;
}

TEST(MappedFile, CopiesBytesWithoutMappingTheirPages) {
  const TemporaryDirectory directory;
  const std::string text = some_text(16 << 20);
  const MappedFile file(directory.write("some.bin", text));
  const std::size_t before = resident_file_bytes();
  ASSERT_EQ(copied(file, {0, text.size()}), text);
  ASSERT_EQ(copied(file, {12345, 12345}), "");
  ASSERT_EQ(copied(file, {4095, 3 << 20}), text.substr(4095, (3 << 20) - 4095));
  EXPECT_LT(resident_file_bytes(), before + text.size() / 4);
}

TEST(MappedFile, CopiesRangesThatArePartlyOnDisk) {
  const TemporaryDirectory directory;
  const std::string text = some_text(9 << 20);
  const auto path = directory.write("some.bin", text);
  const int descriptor = ::open(path.c_str(), O_RDWR);
  ASSERT_EQ(::fsync(descriptor), 0);  // only pages that the disk has can be dropped
  const MappedFile file(path);
  for (const off_t kept : {0, 4096, 1 << 20, 5 << 20}) {
    for (const std::size_t piece : {std::size_t{5000}, std::size_t{1} << 20, text.size()}) {
      ASSERT_EQ(::posix_fadvise(descriptor, kept, 0, POSIX_FADV_DONTNEED), 0);
      for (std::size_t begin = 0; begin < text.size(); begin += 2 * piece) {
        const std::size_t end = std::min(text.size(), begin + piece);
        ASSERT_TRUE(copied(file, {begin, end}) == text.substr(begin, end - begin)) << begin;
      }
    }
  }
  ::close(descriptor);
}

TEST(MappedFile, SaysThatAFileWasMadeShorter) {
  const TemporaryDirectory directory;
  const std::string text = some_text(100'000);
  const auto path = directory.write("some.bin", text);
  const MappedFile file(path);
  ASSERT_EQ(::truncate(path.c_str(), 50'000), 0);
  EXPECT_EQ(copied(file, {10'000, 50'000}), text.substr(10'000, 40'000));
  for (const Range range : {Range{40'000, 60'000}, Range{70'000, 70'001}}) {
    const std::string error = error_of<CheckpointError>([&] { copied(file, range); });
    EXPECT_CONTAINS(error, "some.bin: the file ends at byte ");
    EXPECT_CONTAINS(error,
                    "where it had 100000 when it was opened; do not change a model while it is loaded");
  }
}

TEST(MappedFile, GivesMemoryBackWhenDoneAndStaysReadable) {
  const TemporaryDirectory directory;
  constexpr std::size_t size = 64 << 20;
  const MappedFile file(directory.write("large", std::string(size, '\1')));
  const unsigned sum = sum_of(file);
  const std::size_t before = resident_file_bytes();
  if (before < size) GTEST_SKIP() << "the system does not say what is resident";
  file.advise_done({1, size - 1});
  EXPECT_LT(resident_file_bytes(), before - size + (1 << 20));
  EXPECT_EQ(sum_of(file), sum);
}

TEST(MappedFile, TakesAnyRangeAsDone) {
  const TemporaryDirectory directory;
  const MappedFile file(directory.write("small", std::string(10000, 'x')));
  for (const std::size_t begin : {0, 1, 4095, 4096, 5000, 10000}) {
    for (const std::size_t end : {0, 4096, 8191, 10000, 100000}) {
      if (begin <= end) file.advise_done({begin, end});
    }
  }
  EXPECT_EQ(file_content(file), std::string(10000, 'x'));
}

}  // namespace
}  // namespace tp
