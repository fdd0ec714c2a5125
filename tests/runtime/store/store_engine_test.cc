// Prompts that one engine stores and another one reads, on other ranks: results are those of computed
// prompts.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/error.h"
#include "tp/mpi.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mount.h>

namespace tp {
namespace {

using reference::Fixture;
using test::Continuation;
using test::run_alone;

// Runs `work` with an engine on the first `ranks` ranks. The other ranks wait.
void on_ranks(std::size_t ranks, const EngineOptions& options, const std::function<void(Engine&)>& work,
              const EngineHooks& hooks = {}) {
  Communicator& world = test::world();
  std::vector<std::size_t> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  if (world.rank() < ranks) {
    Communicator some(world, members);
    test::run_engine(some, options, work, hooks);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// All numbers of ranks that this test can have.
std::vector<std::size_t> rank_counts() {
  std::vector<std::size_t> counts(test::world().size());
  std::iota(counts.begin(), counts.end(), 1);
  return counts;
}

Request asked(std::vector<TokenId> prompt) {
  Request request = test::greedy_request(std::move(prompt), 12);
  request.sampling.logprobs = 3;
  return request;
}

void expect_same(const Continuation& found, const Continuation& expected) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.logprobs, expected.logprobs);
}

class StoreFolderTest {
 public:
  const std::filesystem::path& path() const { return directory_.path(); }
  // All files of stored values.
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
      if (!entry.is_directory() && entry.path().filename() != "model") all.push_back(entry.path());
    }
    std::ranges::sort(all);
    return all;
  }

 private:
  test::TemporaryDirectory directory_;
};

// Ranks other than 0 use rank 0's folder.
EngineOptions options_for(const Fixture& fixture, const StoreFolderTest& store) {
  return {.model = fixture.folder,
          .weights = WeightType::f32,
          .kv_type = KvType::f32,
          .same_bits = true,
          .kv_store = test::world().is_root() ? store.path() : std::filesystem::path(),
          .kv_store_min = 8,
          .prefill_chunk = 16,
          .max_length = 64,
          .block_size = 4};
}

Continuation computed(EngineOptions options, const Request& request) {
  options.kv_store.clear();
  Continuation result;
  on_ranks(1, options, [&](Engine& engine) { result = run_alone(engine, request); });
  return result;
}

class StoredFamily : public testing::TestWithParam<Fixture> {};

// The prompt of 41 tokens and the answer of 12 make 13 blocks, of which the prompt can use 10.
TEST_P(StoredFamily, GivesTheBitsOfComputedPromptsOnOtherRanks) {
  const StoreFolderTest store;
  const EngineOptions options = options_for(GetParam(), store);
  const Request request = asked(test::varied_prompt(GetParam().prompt, 41, 0));
  const Continuation expected = computed(options, request);
  const std::size_t writers = std::min<std::size_t>(2, test::world().size());
  on_ranks(writers, options, [&](Engine& engine) {
    expect_same(run_alone(engine, request), expected);
    EXPECT_EQ(engine.status().store.restored_tokens, 0U);
  });
  for (const std::size_t ranks : rank_counts()) {
    SCOPED_TRACE(testing::Message() << "read on " << ranks << " ranks");
    on_ranks(ranks, options, [&](Engine& engine) {
      const Continuation read = run_alone(engine, request);
      expect_same(read, expected);
      EXPECT_EQ(read.cached_tokens, 40U);
      const StoreStatus status = engine.status().store;
      EXPECT_EQ(status.restored_tokens, 40U);
      EXPECT_EQ(status.damaged_files, 0U);
    });
  }
}

// Tokens and bits of logits, with caches of every type.
TEST(Store, GivesTheBitsOfComputedPromptsWithCachesOfEveryType) {
  for (const char* name : {"llama-gqa", "gptoss", "deepseek3-yarn", "qwen35"}) {
    for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
      SCOPED_TRACE(testing::Message() << name << ", " << name_of(type));
      const Fixture fixture = reference::fixture(name);
      const StoreFolderTest store;
      EngineOptions options = options_for(fixture, store);
      options.kv_type = type;
      const Request request = asked(test::varied_prompt(fixture.prompt, 41, 0));
      const Continuation expected = computed(options, request);
      for (const std::size_t ranks : {test::world().size(), std::size_t{1}, test::world().size()}) {
        on_ranks(ranks, options, [&](Engine& engine) { expect_same(run_alone(engine, request), expected); });
      }
      on_ranks(1, options, [&](Engine& engine) {
        EXPECT_EQ(run_alone(engine, request).cached_tokens, 40U);
        EXPECT_EQ(engine.status().store.restored_tokens, 40U);
      });
    }
  }
}

// Several files per prompt, with full, windowed, latent and recurrent layers.
TEST(Store, ReadsLongPromptsUpToWhereTheyDiverge) {
  for (const char* name : {"gemma4", "glm4moelite", "qwen35", "lfm2"}) {
    SCOPED_TRACE(name);
    const Fixture fixture = reference::fixture(name);
    const StoreFolderTest store;
    EngineOptions options = options_for(fixture, store);
    options.prefill_chunk = 200;
    options.max_length = 1500;
    options.block_size = 16;
    const std::vector<TokenId> all = test::varied_prompt(fixture.prompt, 1400, 1);
    std::vector<TokenId> other(all.begin(), all.begin() + 1100);
    for (std::size_t i = 900; i < other.size(); ++i) other[i] = fixture.prompt[i % 3];
    const Continuation whole = computed(options, asked(all));
    const Continuation diverged = computed(options, asked(other));
    on_ranks(test::world().size(), options,
             [&](Engine& engine) { expect_same(run_alone(engine, asked(all)), whole); });
    for (const std::size_t ranks : rank_counts()) {
      on_ranks(ranks, options, [&](Engine& engine) {
        const Continuation read = run_alone(engine, asked(all));
        expect_same(read, whole);
        EXPECT_EQ(read.cached_tokens, 1392U);
        const Continuation partly = run_alone(engine, asked(other));
        expect_same(partly, diverged);
        // The first engine stores the other prompt, too.
        EXPECT_TRUE(ranks == 1 ? partly.cached_tokens >= 700 && partly.cached_tokens < 900
                               : partly.cached_tokens == 1088)
            << partly.cached_tokens;
      });
    }
  }
}

TEST(Store, ContinuesConversationsAcrossEngines) {
  const Fixture fixture = reference::fixture("qwen35");
  const StoreFolderTest store;
  const EngineOptions options = options_for(fixture, store);
  std::vector<TokenId> text = test::varied_prompt(fixture.prompt, 17, 0);
  for (int turn = 0; turn < 3; ++turn) {
    const Continuation expected = computed(options, asked(text));
    on_ranks(test::world().size(), options, [&](Engine& engine) {
      const Continuation read = run_alone(engine, asked(text));
      expect_same(read, expected);
      // The last token of an answer is not computed before the next turn.
      EXPECT_EQ(read.cached_tokens, turn == 0 ? 0 : (text.size() - 3) / 4 * 4) << "turn " << turn;
      text.insert(text.end(), expected.tokens.begin(), expected.tokens.end());
      text.insert(text.end(), {5, 6});
    });
  }
  if (!test::world().is_root()) return;
  const std::vector<std::filesystem::path> files = store.files();
  EXPECT_EQ(std::ranges::count_if(files, [](const auto& file) { return file.string().ends_with("-k0h0"); }),
            1)
      << "a longer run replaces a shorter one";
}

TEST(Store, IgnoresShortPromptsOtherSaltsAndRequestsWithoutCache) {
  const Fixture fixture = reference::fixture("llama-gqa");
  const StoreFolderTest store;
  const EngineOptions options = options_for(fixture, store);
  const auto expect_restored = [&](const Request& request, std::size_t tokens) {
    on_ranks(test::world().size(), options, [&](Engine& engine) {
      run_alone(engine, request);
      EXPECT_EQ(engine.status().store.restored_tokens, tokens);
    });
  };
  Request request = asked(test::varied_prompt(fixture.prompt, 21, 0));
  request.cache_prompt = false;
  expect_restored(request, 0);
  request.cache_prompt = true;
  expect_restored(request, 0);
  expect_restored(request, 20);
  request.cache_salt = "a";
  expect_restored(request, 0);
  expect_restored(request, 20);
  request.cache_prompt = false;
  expect_restored(request, 0);
  const Request shorter = asked(test::varied_prompt(fixture.prompt, 7, 0));
  expect_restored(shorter, 0);
  expect_restored(shorter, 0);
}

// Other types, overrides and models are other folders.
TEST(Store, DoesNotMixWhatOtherEnginesCompute) {
  const Fixture fixture = reference::fixture("llama-gqa");
  const StoreFolderTest store;
  const EngineOptions options = options_for(fixture, store);
  const Request request = asked(test::varied_prompt(fixture.prompt, 21, 0));
  std::vector<EngineOptions> different(6, options);
  different[1].kv_type = KvType::bf16;
  different[2].weights = WeightType::int8;
  different[3].block_size = 8;
  different[4].same_bits = false;
  different[5].model = reference::fixture("qwen3").folder;
  for (const EngineOptions& other : different) {
    on_ranks(test::world().size(), other, [&](Engine& engine) {
      run_alone(engine, request);
      EXPECT_EQ(engine.status().store.restored_tokens, 0U);
      EXPECT_EQ(engine.status().store.damaged_files, 0U);
    });
  }
}

// Changes all stored files, and expects the results of a computed prompt, and notes that contain `note` if it
// is not empty.
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
  EXPECT_LE(notes.size(), test::world().size()) << "one note per rank";
  EXPECT_EQ(notes.empty(), note.empty() || !test::world().is_root());
  for (const std::string& text : notes) EXPECT_NE(text.find(note), std::string::npos) << text;
  // The prompt has been stored again.
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

// Only the values of other heads: the header that rank 0 reads at the start is right.
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

// A file system of its own for the store, if the test may mount one.
class SmallDisk {
 public:
  explicit SmallDisk(const char* options) {
    is_mounted_ = ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, options) == 0;
  }
  ~SmallDisk() {
    if (is_mounted_) ::umount(directory_.path().c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool is_mounted() const { return is_mounted_; }
  void make_read_only() const {
    ASSERT_EQ(::mount("tmpfs", directory_.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0);
  }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  test::TemporaryDirectory directory_;
  bool is_mounted_ = false;
};

// On one rank, because the others may be in another mount namespace.
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
  for (const std::string& text : notes) EXPECT_NE(text.find(note), std::string::npos) << text;
}

TEST(StoreFaults, AFullDiskStopsWritingWithOneNote) {
  const SmallDisk disk("size=12k");
  if (!disk.is_mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  expect_note(disk.path(), 0, "No space left on device");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(disk.path()))
    EXPECT_NE(entry.path().extension(), ".tmp") << "nothing is left behind";
}

TEST(StoreFaults, AReadOnlyFolderIsReadAndNotWritten) {
  const SmallDisk disk("size=10m");
  if (!disk.is_mounted()) GTEST_SKIP() << "needs the right to mount a file system";
  expect_note(disk.path(), 0, "");
  disk.make_read_only();
  expect_note(disk.path(), 40, "");
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
      1, options,
      [&](Engine& engine) {
        std::filesystem::remove_all(store.path());
        expect_same(run_alone(engine, request), expected);
        while (engine.wait_for_work(std::chrono::nanoseconds(0))) engine.step();
      },
      hooks);
  EXPECT_EQ(notes.size(), test::world().is_root() ? 1U : 0U);
  std::filesystem::create_directories(store.path());
}

// Every rank is a job of its own.
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

std::vector<Fixture> fixtures_with_prefixes() {
  std::vector<Fixture> fixtures = reference::fixtures_of(supported_architectures());
  std::erase_if(fixtures, [](const Fixture& fixture) {
    return takes_whole_sequences(make_spec(load_config(fixture.folder)));
  });
  return fixtures;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, StoredFamily, testing::ValuesIn(fixtures_with_prefixes()),
                         [](const testing::TestParamInfo<Fixture>& info) {
                           std::string name = info.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tp
