// The size limit of a folder of stored prompts: what is removed first, and how long the rest stays usable.
#include "runtime/store/files/store_limit.h"

#include "runtime/store/files/prompt_ids.h"
#include "runtime/store/files/store_folder.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace tp {
namespace {

// A conversation that starts with the token `first` and has runs of two tokens.
class StoredConversation {
 public:
  StoredConversation(const StoreFolder& folder, TokenId first, std::size_t runs) {
    PromptId before{};
    for (std::size_t i = 0; i < runs; ++i) {
      RunHeader header{.before = before, .tokens = {first, static_cast<TokenId>(i)}};
      before = header.id = id_after(before, header.tokens);
      for (const char* part : {"k0h0", "k0h1"}) {
        std::vector<std::byte> file(run_offset(2) + 1000);
        complete_run(header, file);
        EXPECT_EQ(folder.write(folder.path_of(header.id, part), file), "");
        files_.push_back(folder.path_of(header.id, part));
      }
    }
  }

  // Sets the time at which one run was last used, in seconds.
  void use(std::size_t run, long seconds) const {
    for (const std::size_t file : {2 * run, 2 * run + 1}) {
      const timespec times[2] = {{seconds, 0}, {seconds, 0}};
      ::utimensat(AT_FDCWD, files_[file].c_str(), times, 0);
    }
  }
  // Returns one digit for each run: 1 if it is complete, 0 if it was removed.
  std::string left() const {
    std::string text;
    for (std::size_t i = 0; i < files_.size(); i += 2) {
      const int files =
          (StoreFolder::exists(files_[i]) ? 1 : 0) + (StoreFolder::exists(files_[i + 1]) ? 1 : 0);
      text += std::to_string(files / 2);
      EXPECT_NE(files, 1) << "half a run";
    }
    return text;
  }

 private:
  std::vector<std::filesystem::path> files_;
};

class StoreLimit : public testing::Test {
 protected:
  test::TemporaryDirectory directory_;
  StoreFolder folder_{directory_.path(), "fingerprint", "llama, weights auto, cache bf16"};
  const std::uint64_t run_bytes_ = 2 * (run_offset(2) + 1000);
};

TEST_F(StoreLimit, RemovesTheLeastRecentlyUsedConversationFromItsEnd) {
  const StoredConversation old(folder_, 1, 3);
  const StoredConversation recent(folder_, 2, 3);
  for (std::size_t run = 0; run < 3; ++run) {
    old.use(run, 1000);
    recent.use(run, 2000 - static_cast<long>(run));  // the beginning was used last
  }
  EXPECT_EQ(shrink_store(directory_.path(), 6 * run_bytes_), 0U);
  EXPECT_GT(shrink_store(directory_.path(), 5 * run_bytes_ + run_bytes_ / 2), 0U);
  EXPECT_EQ(old.left(), "100");
  EXPECT_EQ(recent.left(), "111");
  shrink_store(directory_.path(), 2 * run_bytes_);
  EXPECT_EQ(old.left(), "000");
  EXPECT_EQ(recent.left(), "100");
}

TEST_F(StoreLimit, KeepsABeginningAsLongAsItsContinuations) {
  const StoredConversation chat(folder_, 1, 3);
  const StoredConversation other(folder_, 2, 1);
  chat.use(0, 1000);
  chat.use(1, 1000);
  chat.use(2, 3000);
  other.use(0, 2000);
  shrink_store(directory_.path(), 3 * run_bytes_ + run_bytes_ / 2);
  EXPECT_EQ(other.left(), "0");
  EXPECT_EQ(chat.left(), "111");
}

TEST_F(StoreLimit, IsFixedWhenTheFolderIsCreated) {
  const std::uint64_t fixed = store_limit(directory_.path() / "new", 0);
  EXPECT_GT(fixed, 0U);
  EXPECT_LE(fixed, 20'000'000'000U);
  std::ofstream(directory_.path() / "new" / "size") << 12345;
  EXPECT_EQ(store_limit(directory_.path() / "new", 0), 12345U);
  EXPECT_EQ(store_limit(directory_.path() / "new", 678), 678U);
}

TEST_F(StoreLimit, ListsAndPrunes) {
  const StoredConversation old(folder_, 1, 2);
  const StoredConversation recent(folder_, 2, 2);
  for (const std::size_t run : {0U, 1U}) {
    old.use(run, 1000);
    recent.use(run, 2000);
  }
  std::vector<StoreSummary> stores = summarize_stores(directory_.path());
  ASSERT_EQ(stores.size(), 1U);
  EXPECT_EQ(stores[0].name, "fingerprint");
  EXPECT_EQ(stores[0].description, "llama, weights auto, cache bf16");
  EXPECT_EQ(stores[0].tokens, 8U);
  EXPECT_EQ(stores[0].bytes, 4 * run_bytes_);
  EXPECT_EQ(stores[0].used, 2'000'000'000'000);
  EXPECT_EQ(prune_stores(directory_.path(), {.unused_since = 1'500'000'000'000}), 2 * run_bytes_);
  EXPECT_EQ(old.left() + recent.left(), "0011");
  EXPECT_EQ(prune_stores(directory_.path(), {.bytes = run_bytes_}), run_bytes_);
  EXPECT_EQ(recent.left(), "10");
  EXPECT_EQ(prune_stores(directory_.path(), {.name = "qwen"}), 0U);
  EXPECT_EQ(prune_stores(directory_.path(), {.name = "llama"}), run_bytes_);
  EXPECT_TRUE(summarize_stores(directory_.path()).empty());
  EXPECT_THROW(summarize_stores(directory_.path() / "none"), ConfigError);
}

// The user may have named a folder that is not a store.
TEST_F(StoreLimit, PruningKeepsForeignFolders) {
  const std::filesystem::path weights = directory_.path() / "llama" / StoreFolder::kDescription / "weights";
  std::filesystem::create_directories(weights.parent_path());
  std::ofstream(weights) << "w";
  std::filesystem::create_directories(directory_.path() / "empty");
  std::filesystem::create_directories(directory_.path() / "old");
  std::ofstream(directory_.path() / "old" / StoreFolder::kDescription) << "model";
  prune_stores(directory_.path(), {.unused_since = 1'500'000'000'000});
  EXPECT_TRUE(std::filesystem::exists(weights));
  EXPECT_TRUE(std::filesystem::exists(directory_.path() / "empty"));
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "old")) << "a store without prompts";
}

// Opening a pipe would block until another process opens it.
TEST_F(StoreLimit, ListsAndPrunesFoldersWithPipes) {
  const StoredConversation chat(folder_, 1, 1);
  const std::filesystem::path other = directory_.path() / std::string(32, 'f');
  std::filesystem::create_directories(other);
  std::filesystem::create_directories(directory_.path() / "foreign");
  for (const std::filesystem::path& pipe :
       {other / StoreFolder::kDescription, folder_.path() / "abc.tmp", directory_.path() / "size",
        directory_.path() / "lock", folder_.path_of(PromptId{}, "k0h0")})
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::vector<StoreSummary> stores = summarize_stores(directory_.path());
  ASSERT_EQ(stores.size(), 2U);
  EXPECT_EQ(stores[0].description, "");
  EXPECT_EQ(stores[1].bytes, run_bytes_);
  EXPECT_GT(store_limit(directory_.path(), 0), 0U);
  EXPECT_EQ(shrink_store(directory_.path(), 1), 0U) << "the lock is not a file";
  folder_.remove_abandoned();
  EXPECT_EQ(prune_stores(directory_.path(), {.name = "fingerprint"}), run_bytes_);
}

TEST_F(StoreLimit, TreatsZeroInTheFileAsNoLimit) {
  std::ofstream(directory_.path() / "size") << 0;
  EXPECT_GT(store_limit(directory_.path(), 0), 0U);
}

TEST_F(StoreLimit, FilesAreReadableOnlyByTheUser) {
  const mode_t mask = ::umask(0);
  const StoredConversation chat(folder_, 1, 1);
  shrink_store(directory_.path(), store_limit(directory_.path(), 0));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_.path())) {
    if (entry.is_directory()) continue;
    ++files;
    EXPECT_EQ(entry.status().permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
        << entry.path();
  }
  EXPECT_EQ(files, 5U) << "two parts, the description, the size and the lock";
  ::umask(mask);
}

// Another process may prune the store while this one writes.
TEST_F(StoreLimit, CreatesAFolderAgainThatWasPruned) {
  prune_stores(directory_.path(), {.name = "fingerprint"});
  ASSERT_FALSE(StoreFolder::exists(folder_.path()));
  const StoredConversation chat(folder_, 1, 1);
  EXPECT_EQ(chat.left(), "1");
  ASSERT_EQ(summarize_stores(directory_.path()).size(), 1U);
  EXPECT_EQ(summarize_stores(directory_.path()).front().description, "llama, weights auto, cache bf16");
}

TEST_F(StoreLimit, WritesNothingIntoAFolderThatIsGone) {
  std::filesystem::remove_all(directory_.path());
  EXPECT_EQ(folder_.write(folder_.path() / "file", {}), "No such file or directory");
  std::vector<std::byte> bytes(3);
  EXPECT_EQ(StoreFolder::read(folder_.path() / "file", bytes), "No such file or directory");
}

TEST_F(StoreLimit, RemovesTemporaryFilesWithoutWriters) {
  std::ofstream(folder_.path() / "abandoned.tmp") << "x";
  folder_.remove_abandoned();
  EXPECT_TRUE(StoreFolder::exists(folder_.path() / "abandoned.tmp")) << "its writer may be about to lock it";
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  ::utimensat(AT_FDCWD, (folder_.path() / "abandoned.tmp").c_str(), times, 0);
  folder_.remove_abandoned();
  EXPECT_FALSE(StoreFolder::exists(folder_.path() / "abandoned.tmp"));
}

}  // namespace
}  // namespace tp
