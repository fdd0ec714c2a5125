// Hashes of whole files, and the file that remembers them.
#include "model/files/content_hash.h"

#include "model/files/hash_cache.h"
#include "parallel/machine/file_text.h"
#include "tests/temporary_directory.h"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tp {
namespace {

using test::TemporaryDirectory;

// More than two chunks. The last one is partial.
constexpr std::size_t kSize = 2 * kHashedChunk + 12'345;

ContentHash hash_of(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::vector<ContentHash> parts(hashed_chunks(file.bytes().size()));
  hash_chunks(file, {0, parts.size()}, parts);
  return combined(parts);
}

std::string some_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 7 + i / 1000);
  return bytes;
}

TEST(ContentHash, ChangesWithAByteAnywhere) {
  const TemporaryDirectory folder;
  std::string bytes = some_bytes(kSize);
  const ContentHash expected = hash_of(folder.write("file", bytes));
  for (const std::size_t at : {std::size_t{0}, std::size_t{5'000}, kHashedChunk - 1, kHashedChunk,
                               std::size_t{6'000'001}, kSize - 1}) {
    bytes[at] ^= 1;
    EXPECT_FALSE(hash_of(folder.write("file", bytes)) == expected) << at;
    bytes[at] ^= 1;
  }
  EXPECT_TRUE(hash_of(folder.write("copy", bytes)) == expected);
  EXPECT_FALSE(hash_of(folder.write("file", bytes + '\0')) == expected);
}

TEST(ContentHash, IsTheSameIfChunksAreHashedOneByOne) {
  const TemporaryDirectory folder;
  const MappedFile file(folder.write("file", some_bytes(kSize)));
  std::vector<ContentHash> together(3);
  hash_chunks(file, {0, 3}, together);
  std::vector<ContentHash> apart(3);
  for (std::size_t i = 0; i < 3; ++i) hash_chunks(file, {i, i + 1}, std::span(apart).subspan(i, 1));
  EXPECT_EQ(together, apart);
}

constexpr FileStatus kStatus{.device = 1, .inode = 2, .size = 3, .modified = 4'000, .changed = 5'000};
constexpr ContentHash kHash{.low = 0x1234, .high = 0xfedcba9876543210};

std::optional<ContentHash> find(const HashCache& cache, const FileStatus& file) {
  const auto found = cache.find(std::span(&file, 1));
  return found ? std::optional(found->front()) : std::nullopt;
}

TEST(HashCache, FindsTheHashOfAFileThatHasNotChanged) {
  const TemporaryDirectory folder;
  const HashCache cache(folder.path() / "new folder" / "hashes");
  EXPECT_FALSE(find(cache, kStatus));
  cache.add(kStatus, kHash);
  EXPECT_TRUE(find(cache, kStatus) == kHash);
  EXPECT_EQ(std::filesystem::status(folder.path() / "new folder" / "hashes").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::vector<FileStatus> others(5, kStatus);
  ++others[0].device;
  ++others[1].inode;
  ++others[2].size;
  ++others[3].modified;
  ++others[4].changed;
  for (std::size_t i = 0; i < others.size(); ++i) EXPECT_FALSE(find(cache, others[i])) << i;
  for (std::size_t i = 0; i < others.size(); ++i) cache.add(others[i], {i, i});
  EXPECT_TRUE(find(cache, others[2]) == (ContentHash{2, 2}));
  EXPECT_TRUE(find(cache, kStatus) == kHash);
  const auto several = cache.find(std::vector<FileStatus>{others[4], kStatus});
  EXPECT_TRUE(several == (std::vector<ContentHash>{{4, 4}, kHash}));
  EXPECT_FALSE(cache.find(std::vector<FileStatus>{kStatus, FileStatus{}}));
}

// A file system's clock may be so coarse that a second change has the first one's time.
TEST(HashCache, DoesNotRememberAFileThatChangedAMomentAgo) {
  const TemporaryDirectory folder;
  const HashCache cache(folder.path() / "hashes");
  const FileStatus status = MappedFile(folder.write("file", "x")).opened();
  cache.add(status, kHash);
  EXPECT_FALSE(find(cache, status));
  FileStatus old_contents = status;
  old_contents.modified = 0;  // `touch` can set this time, but not the time of the change
  cache.add(old_contents, kHash);
  EXPECT_FALSE(find(cache, old_contents));
}

TEST(HashCache, IgnoresDamagedLines) {
  const TemporaryDirectory folder;
  const HashCache cache(folder.path() / "hashes");
  cache.add(kStatus, kHash);
  const std::string line = file_text(folder.path() / "hashes");
  for (std::size_t at = 0; at + 1 < line.size(); ++at) {
    std::string damaged = line;
    damaged[at] ^= 1;
    folder.write("hashes", damaged);
    EXPECT_FALSE(find(cache, kStatus)) << at;
    folder.write("hashes", line.substr(0, at));
    EXPECT_FALSE(find(cache, kStatus)) << at;
  }
  folder.write("hashes", "something else\n" + line.substr(0, 20) + "\n" + line);
  EXPECT_TRUE(find(cache, kStatus) == kHash);
}

TEST(HashCache, BeginsAFileAnewThatHasGrownTooLong) {
  const TemporaryDirectory folder;
  const HashCache cache(folder.path() / "hashes");
  folder.write("hashes", std::string(2 << 20, 'x') + '\n');
  cache.add(kStatus, kHash);
  EXPECT_LT(std::filesystem::file_size(folder.path() / "hashes"), 1000U);
  EXPECT_TRUE(find(cache, kStatus) == kHash);
}

TEST(HashCache, DoesWithoutAFileThatCannotBeWritten) {
  const TemporaryDirectory folder;
  folder.write("no folder", "");
  for (const std::filesystem::path& file :
       {std::filesystem::path(), folder.path() / "no folder" / "hashes", folder.path(),
        std::filesystem::path("/proc/no such folder/hashes")}) {
    const HashCache cache(file);
    cache.add(kStatus, kHash);
    EXPECT_FALSE(find(cache, kStatus)) << file;
  }
}

TEST(HashCache, IgnoresAFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TemporaryDirectory folder;
  const HashCache cache(folder.path() / "hashes");
  cache.add(kStatus, kHash);
  ASSERT_EQ(::chown((folder.path() / "hashes").c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_FALSE(find(cache, kStatus));
}

}  // namespace
}  // namespace tp
