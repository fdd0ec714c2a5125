// Packed weights in a file.
#include "model/weights/packed_cache.h"

#include "tests/model/weights/checkpoint_files.h"

#include <csignal>
#include <fstream>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tp {
namespace {

using test::TemporaryDirectory;

const PackedCacheIdentity kIdentity{"/models/some", {17, 1}, WeightType::int4, 0, {1, 4}};

std::span<std::byte> bytes_of(std::vector<std::uint32_t>& values) {
  return std::as_writable_bytes(std::span(values));
}

// More than a chunk, a few bytes, and none.
const std::vector<std::size_t> kSizes = {3'000'000, 7, 0, 1'100'000};

std::vector<std::uint32_t> values_of(std::size_t record) {
  std::vector<std::uint32_t> values(kSizes[record]);
  std::iota(values.begin(), values.end(), static_cast<std::uint32_t>(record * 1000));
  return values;
}

std::string write_all(PackedCache& cache) {
  cache.rebuild();
  for (std::size_t record = 0; record < kSizes.size(); ++record) {
    std::vector<std::uint32_t> values = values_of(record);
    cache.write(record, bytes_of(values));
  }
  const std::string text = "some names\n";
  cache.write(99, std::as_bytes(std::span(text)));
  return cache.finish();
}

// Throws like PackedCache::read.
void expect_all(PackedCache& cache) {
  for (std::size_t record = 0; record < kSizes.size(); ++record) {
    std::vector<std::uint32_t> values(kSizes[record]);
    cache.read(record, bytes_of(values));
    EXPECT_EQ(values == values_of(record), true) << record;
  }
  EXPECT_EQ(cache.read_text(99), "some names\n");
}

class PackedCacheFile : public testing::Test {
 protected:
  PackedCacheFile() {
    PackedCache cache(folder_.path(), kIdentity);
    EXPECT_FALSE(cache.reads());
    EXPECT_EQ(cache.unusable_because(), "");
    EXPECT_EQ(write_all(cache), "");
    EXPECT_EQ(folder_.files().size(), 1U);
    file_ = folder_.path() / folder_.files().at(0);
  }

  void overwrite(std::size_t at, const std::string& bytes) const {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at))
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::string why(const PackedCacheIdentity& identity = kIdentity) const {
    const PackedCache cache(folder_.path(), identity);
    EXPECT_FALSE(cache.reads());
    return cache.unusable_because();
  }

  TemporaryDirectory folder_;
  std::filesystem::path file_;
};

TEST_F(PackedCacheFile, IsReadByTheNextStart) {
  PackedCache cache(folder_.path(), kIdentity);
  ASSERT_TRUE(cache.reads()) << cache.unusable_because();
  expect_all(cache);
}

TEST_F(PackedCacheFile, DiffersByRankAndType) {
  PackedCacheIdentity identity = kIdentity;
  identity.tp = {2, 4};
  EXPECT_EQ(why(identity), "");
  identity.tp = {1, 3};
  EXPECT_EQ(why(identity), "");
  identity = kIdentity;
  identity.type.reset();
  EXPECT_EQ(why(identity), "");
  identity = kIdentity;
  identity.leaf_heads = 8;
  EXPECT_EQ(why(identity), "");
  identity = kIdentity;
  identity.divides_tables = true;
  EXPECT_EQ(why(identity), "");
}

TEST_F(PackedCacheFile, IsStaleWhenTheModelHasChanged) {
  PackedCacheIdentity identity = kIdentity;
  identity.source = {17, 2};
  EXPECT_EQ(why(identity), "the model, or how weights are packed, has changed");
}

TEST_F(PackedCacheFile, IsRefusedWhenItIsCutShort) {
  for (const std::uintmax_t size : {std::filesystem::file_size(file_) - 1, std::uintmax_t{5'000'000},
                                    std::uintmax_t{4096}, std::uintmax_t{100}}) {
    std::filesystem::resize_file(file_, size);
    EXPECT_EQ(why(), "it is cut short") << size;
  }
  std::filesystem::resize_file(file_, 0);
  EXPECT_NE(why(), "");
}

TEST_F(PackedCacheFile, RejectsOtherFiles) {
  overwrite(0, "GGUF");
  EXPECT_EQ(why(), "it is not a cache of this version");
}

TEST_F(PackedCacheFile, IsRefusedWhenItsTableIsDamaged) {
  overwrite(std::filesystem::file_size(file_) - 9, "x");
  EXPECT_EQ(why(), "its table is damaged");
}

TEST_F(PackedCacheFile, IsRefusedWhenItIsAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chown(file_.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(why(), "it belongs to another user");
}

TEST_F(PackedCacheFile, ReportsDamageWhileReading) {
  overwrite(9'000'000, "x");
  PackedCache cache(folder_.path(), kIdentity);
  ASSERT_TRUE(cache.reads());
  EXPECT_EQ(test::error_of<PackedCacheError>([&] { expect_all(cache); }), "it is damaged");
}

TEST_F(PackedCacheFile, HoldsNoOtherRecords) {
  std::vector<std::uint32_t> values(5);
  PackedCache cache(folder_.path(), kIdentity);
  EXPECT_EQ(test::error_of<PackedCacheError>([&] { cache.read(1, bytes_of(values)); }),
            "it holds other weights than this model's");
  EXPECT_EQ(test::error_of<PackedCacheError>([&] { cache.read(0, bytes_of(values)); }),
            "it holds weights of other shapes");
}

TEST_F(PackedCacheFile, IsReplacedWhenItsSuccessorIsFinished) {
  overwrite(9'000'000, "x");
  PackedCache cache(folder_.path(), kIdentity);
  EXPECT_EQ(write_all(cache), "");
  PackedCache next(folder_.path(), kIdentity);
  expect_all(next);
  EXPECT_EQ(folder_.files().size(), 1U);
}

TEST_F(PackedCacheFile, IsWrittenByTwoProcessesAtOnce) {
  PackedCache one(folder_.path(), kIdentity);
  PackedCache two(folder_.path(), kIdentity);
  one.rebuild();
  EXPECT_EQ(write_all(two), "");
  std::vector<std::uint32_t> values = {1, 2, 3};
  one.write(5, bytes_of(values));
  EXPECT_EQ(one.finish(), "");
  PackedCache next(folder_.path(), kIdentity);
  std::vector<std::uint32_t> found(3);
  next.read(5, bytes_of(found));
  EXPECT_EQ(found, values);
  EXPECT_EQ(folder_.files().size(), 1U);
}

TEST_F(PackedCacheFile, LeavesNoUnfinishedFiles) {
  {
    PackedCache cache(folder_.path(), kIdentity);
    cache.rebuild();
    EXPECT_EQ(folder_.files().size(), 2U);
  }
  EXPECT_EQ(folder_.files().size(), 1U);
  // Imitates the temporary file of a process that was killed.
  folder_.write(file_.filename().string() + ".abcdef.tmp", "some");
  PackedCache cache(folder_.path(), kIdentity);
  EXPECT_EQ(write_all(cache), "");
  EXPECT_EQ(folder_.files().size(), 1U);
}

TEST_F(PackedCacheFile, ReportsWriteErrors) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1'000'000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  PackedCache cache(folder_.path(), kIdentity);
  const std::string error = write_all(cache);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_CONTAINS(error, "File too large");
  EXPECT_EQ(folder_.files().size(), 1U);
  PackedCache old(folder_.path(), kIdentity);
  expect_all(old);
}

TEST(PackedCache, NeedsAFolderThatCanBeWritten) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.write("file", "x");
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { PackedCache cache(file, kIdentity); }),
                  "expected a folder that may be written");
}

}  // namespace
}  // namespace tp
