// Damaged stored prompts and folders that cannot be written: results equal those of computed prompts.
#include "tests/expect_contains.h"
#include "tests/runtime/store/store_run.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/mount.h>

namespace tp {
namespace {

using reference::Fixture;
using test::asked;
using test::computed;
using test::Continuation;
using test::expect_same;
using test::on_ranks;
using test::options_for;
using test::run_alone;
using test::StoreFolderTest;

// Changes all stored files. Then it expects the results of a computed prompt, and a note that contains `note`
// unless `note` is empty.
void expect_recovery(const std::function<void(const std::filesystem::path&)>& change,
                     const std::string& note = {}) {
  const Fixture fixture = reference::fixture("qwen35");
  const StoreFolderTest store;
  const EngineOptions options = options_for(fixture, store);
  const Request request = asked(test::varied_prompt(fixture.prompt, 41, 0));
  const Continuation expected = computed(options, request);
  on_ranks(test::world().size(), options, [&](Engine& engine) { run_alone(engine, request); });
  if (test::world().is_root()) {
    for (const std::filesystem::path& file : store.files()) {
      if (file.filename().string().find('-') != std::string::npos) change(file);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  std::vector<std::string> notes;
  EngineHooks hooks;
  hooks.note = [&](const std::string& text) { notes.push_back(text); };
  const auto read = [&](Engine& engine) {
    expect_same(run_alone(engine, request), expected);
    EXPECT_EQ(engine.status().store.damaged_files != 0, !note.empty());
  };
  on_ranks(test::world().size(), options, read, hooks);
  EXPECT_LE(notes.size(), 1U) << "one note of all ranks";
  EXPECT_EQ(notes.empty(), note.empty() || !test::world().is_root());
  for (const std::string& text : notes) EXPECT_CONTAINS(text, note);
  // The engine has stored the prompt again.
  on_ranks(1, options, [&](Engine& engine) {
    expect_same(run_alone(engine, request), expected);
    EXPECT_EQ(engine.status().store.restored_tokens, 40U);
  });
}

void overwrite(const std::filesystem::path& file, std::uintmax_t at, const std::string& bytes) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(at));
  stream << bytes;
}

TEST(StoreFaults, TruncatedFilesAreIgnoredAndReplaced) {
  expect_recovery(
      [](const auto& file) { std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2); },
      "is ignored and removed: it is cut short");
}

TEST(StoreFaults, DamagedValuesAreIgnoredAndReplaced) {
  expect_recovery([](const auto& file) { overwrite(file, std::filesystem::file_size(file) - 3, "x"); },
                  "is ignored and removed: it is damaged");
}

TEST(StoreFaults, DamagedHeadersAreIgnoredAndReplaced) {
  expect_recovery([](const auto& file) { overwrite(file, 56, "xyz"); },
                  "is ignored and removed: it is damaged");
}

TEST(StoreFaults, EmptyFilesAreIgnoredAndReplaced) {
  expect_recovery([](const auto& file) { std::filesystem::resize_file(file, 0); },
                  "is ignored and removed: it is cut short");
}

TEST(StoreFaults, FoldersInTheirPlaceAreIgnoredAndReplaced) {
  expect_recovery(
      [](const auto& file) {
        std::filesystem::remove(file);
        std::filesystem::create_directory(file);
      },
      "is ignored and removed: it is not a regular file");
}

// Only files of other heads are wrong. Rank 0 reads the header of the first head at the start, and that
// header is right.
TEST(StoreFaults, AnotherHeadsFilesAreIgnoredAndReplaced) {
  std::filesystem::path first;
  const auto change = [&first](const std::filesystem::path& file) {
    const std::string name = file.filename().string();
    if (name.ends_with("h0") && name.find("-k0") != std::string::npos) first = file;
    if (name.ends_with("h1") && name.find("-k0") != std::string::npos)
      std::filesystem::copy_file(first, file, std::filesystem::copy_options::overwrite_existing);
  };
  expect_recovery(change, "it belongs to another prompt");
}

// A separate file system for the store, if the test may mount one.
class SmallDisk {
 public:
  SmallDisk(std::filesystem::path path, const char* options) : path_(std::move(path)) {
    is_mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, options) == 0;
  }
  ~SmallDisk() {
    if (is_mounted_) ::umount(path_.c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool is_mounted() const { return is_mounted_; }
  void make_read_only() const {
    ASSERT_EQ(::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0);
  }

 private:
  std::filesystem::path path_;
  bool is_mounted_ = false;
};

// Runs on one rank, because the others may be in a different mount namespace.
void expect_note(const std::filesystem::path& store, std::size_t restored, const std::string& note) {
  const Fixture fixture = reference::fixture("llama-gqa");
  const StoreFolderTest unused;
  EngineOptions options = options_for(fixture, unused);
  const Request request = asked(test::varied_prompt(fixture.prompt, 41, 0));
  const Request other = asked(test::varied_prompt(fixture.prompt, 43, 1));
  options.kv_store.clear();
  Communicator self(MPI_COMM_SELF);
  std::vector<Continuation> expected;
  test::run_engine(self, options, [&](Engine& engine) {
    for (const Request& one : {request, other}) expected.push_back(run_alone(engine, one));
  });
  options.kv_store = store;
  std::vector<std::string> notes;
  EngineHooks hooks;
  hooks.note = [&](const std::string& text) { notes.push_back(text); };
  test::run_engine(
      self, options,
      [&](Engine& engine) {
        expect_same(run_alone(engine, request), expected[0]);
        EXPECT_EQ(engine.status().store.restored_tokens, restored);
        expect_same(run_alone(engine, other), expected[1]);
        while (engine.wait_for_work(std::chrono::nanoseconds(0))) engine.step();
        EXPECT_EQ(engine.status().store.writes, note.empty());
        expect_same(run_alone(engine, other), expected[1]);
      },
      hooks);
  ASSERT_EQ(notes.size(), note.empty() ? 0U : 1U);
  for (const std::string& text : notes) EXPECT_CONTAINS(text, note);
}

TEST(StoreFaults, AFullDiskStopsWritingWithOneNote) {
  const StoreFolderTest store;
  const SmallDisk disk(store.path(), "size=12k");
  if (!disk.is_mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  expect_note(store.path(), 0, "No space left on device");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(store.path()))
    EXPECT_NE(entry.path().extension(), ".tmp") << "nothing is left behind";
}

TEST(StoreFaults, AReadOnlyFolderIsReadAndNotWritten) {
  const StoreFolderTest store;
  const SmallDisk disk(store.path(), "size=10m");
  if (!disk.is_mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  expect_note(store.path(), 0, "");
  disk.make_read_only();
  expect_note(store.path(), 40, "");
}

// Rank 0 mounts the folder for all ranks, which are in its mount namespace when mpirun runs on one host.
TEST(StoreFaults, ANewPromptAndAReadOnlyFolderGiveOneNoteOfAllRanks) {
  const Fixture fixture = reference::fixture("llama-gqa");
  const StoreFolderTest store;
  std::optional<SmallDisk> disk;
  if (test::world().is_root()) disk.emplace(store.path(), "size=10m");
  int mounted = disk && disk->is_mounted() ? 1 : 0;
  MPI_Bcast(&mounted, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (mounted == 0) GTEST_SKIP() << "needs the right to mount a file system";
  const EngineOptions options = options_for(fixture, store);
  const Request stored = asked(test::varied_prompt(fixture.prompt, 41, 0));
  const Request added = asked(test::varied_prompt(fixture.prompt, 43, 1));
  const std::vector<Continuation> expected = {computed(options, stored), computed(options, added)};
  on_ranks(test::world().size(), options, [&](Engine& engine) { run_alone(engine, stored); });
  if (disk) disk->make_read_only();
  MPI_Barrier(MPI_COMM_WORLD);
  std::vector<std::string> notes;
  EngineHooks hooks;
  hooks.note = [&](const std::string& text) { notes.push_back(text); };
  const auto work = [&](Engine& engine) {
    expect_same(run_alone(engine, stored), expected[0]);
    EXPECT_EQ(engine.status().store.restored_tokens, 40U);
    expect_same(run_alone(engine, added), expected[1]);
    while (engine.wait_for_work(std::chrono::nanoseconds(0))) engine.step();
    EXPECT_FALSE(engine.status().store.writes);
  };
  on_ranks(test::world().size(), options, work, hooks);
  ASSERT_EQ(notes.size(), test::world().is_root() ? 1U : 0U);
  for (const std::string& text : notes) EXPECT_CONTAINS(text, "Read-only file system");
}

TEST(StoreFaults, AFolderThatVanishesStopsWritingWithOneNote) {
  const Fixture fixture = reference::fixture("llama-gqa");
  const StoreFolderTest store;
  const EngineOptions options = options_for(fixture, store);
  const Request request = asked(test::varied_prompt(fixture.prompt, 41, 0));
  const Continuation expected = computed(options, request);
  std::vector<std::string> notes;
  EngineHooks hooks;
  hooks.note = [&](const std::string& text) { notes.push_back(text); };
  on_ranks(
      test::world().size(), options,
      [&](Engine& engine) {
        std::filesystem::remove_all(store.path());
        expect_same(run_alone(engine, request), expected);
        while (engine.wait_for_work(std::chrono::nanoseconds(0))) engine.step();
      },
      hooks);
  EXPECT_EQ(notes.size(), test::world().is_root() ? 1U : 0U);
  std::filesystem::create_directories(store.path());
}

// Every rank is a separate job.
TEST(StoreFaults, JobsShareAFolder) {
  const Fixture fixture = reference::fixture("qwen35");
  const StoreFolderTest store;
  EngineOptions options = options_for(fixture, store);
  std::string path = store.path().string();
  MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  options.kv_store = path;
  const Request request = asked(test::varied_prompt(fixture.prompt, 41, 0));
  const Continuation expected = computed(options, request);
  Communicator self(MPI_COMM_SELF);
  for (int round = 0; round < 3; ++round) {
    test::run_engine(self, options, [&](Engine& engine) {
      const Continuation found = run_alone(engine, request);
      if (test::world().is_root()) expect_same(found, expected);
      EXPECT_TRUE(round == 0 || found.cached_tokens == 40U) << found.cached_tokens;
    });
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

}  // namespace
}  // namespace tp
