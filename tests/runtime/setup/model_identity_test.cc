// The identity of a model's files on several ranks.
#include "runtime/setup/model_identity.h"

#include "model/weights/open_checkpoint.h"
#include "parallel/exchange/fail_together.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/runtime/setup/invert_bit.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace tp {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

const fs::path& fixture_folder() {
  static const fs::path folder = reference::fixture("llama-gqa").folder;
  return folder;
}

fs::path weights_of(const fs::path& folder) { return folder / "model.safetensors"; }

// Gives each rank its own copy of the model.
class ModelIdentityOfCopies : public testing::Test {
 protected:
  ModelIdentityOfCopies() {
    fs::copy(fixture_folder(), copy(), fs::copy_options::recursive);
    fs::permissions(weights_of(copy()), fs::perms::owner_all);
  }

  fs::path copy() const { return directory_.path() / "model"; }

  // Edits the weights.
  void edit(std::size_t from_end) const { test::invert_bit(weights_of(copy()), from_end); }

  TemporaryDirectory directory_;
};

// A model that all ranks have opened.
struct OpenModel {
  explicit OpenModel(const fs::path& folder, const HashCache& cache = HashCache(fs::path()))
      : source(open_checkpoint(folder)), identity(test::world(), *source, "model", cache) {}

  std::unique_ptr<WeightSource> source;
  ModelIdentity identity;
};

ContentHash identity_of(const fs::path& folder, const HashCache& cache = HashCache(fs::path())) {
  return OpenModel(folder, cache).identity.read();
}

TEST_F(ModelIdentityOfCopies, DependsOnAllBytesAndNotOnTheFilesPlace) {
  const ContentHash expected = identity_of(fixture_folder());
  EXPECT_TRUE(identity_of(copy()) == expected);
  const std::size_t size = fs::file_size(weights_of(fixture_folder()));
  for (const std::size_t from_end : {std::size_t{1}, std::size_t{1001}, size / 3, size / 2 + 5}) {
    edit(from_end);
    EXPECT_FALSE(identity_of(copy()) == expected) << from_end;
    edit(from_end);
  }
  EXPECT_TRUE(identity_of(copy()) == expected);
}

TEST_F(ModelIdentityOfCopies, IsRefusedIfTheCopyOfOneRankDiffersInOneBit) {
  Communicator& comm = test::world();
  if (comm.size() == 1) return;
  if (comm.rank() == comm.size() - 1) edit(1001);
  OpenModel model(copy());
  EXPECT_TRUE(model.identity.has_copies());
  const std::string text = test::error_of<AgreedError>([&] { model.identity.read(); });
  EXPECT_EQ(text.find("the ranks disagree about the checkpoint in model: rank 0 has "), 0U) << text;
}

TEST(ModelIdentity, KnowsThatRanksOpenedOneFileWithoutReadingIt) {
  EXPECT_FALSE(OpenModel(fixture_folder()).identity.has_copies());
}

// The test stores a wrong hash in the cache. A wrong identity then shows that the file was not read.
TEST(ModelIdentity, IsRememberedSoThatTheNextStartReadsNothing) {
  Communicator& comm = test::world();
  const TemporaryDirectory folder;  // differs by rank, so only the rank that stored the hash finds it
  const HashCache cache(folder.path() / "hashes");
  const MappedFile weights(weights_of(fixture_folder()));
  const FileStatus status[] = {weights.opened()};
  const ContentHash expected = identity_of(fixture_folder(), cache);
  EXPECT_EQ(cache.find(status).has_value(), comm.is_root());
  EXPECT_TRUE(identity_of(fixture_folder(), cache) == expected);
  fs::remove(folder.path() / "hashes");
  if (comm.is_root()) cache.add(status[0], {1, 2});
  EXPECT_FALSE(identity_of(fixture_folder(), cache) == expected);
}

// The test waits until the file's status is old enough to be remembered.
TEST_F(ModelIdentityOfCopies, ChangesThoughAnEditKeepsSizeAndTimeOfARememberedFile) {
  const HashCache cache(directory_.path() / "hashes");
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  const ContentHash before = identity_of(copy(), cache);
  EXPECT_TRUE(fs::exists(directory_.path() / "hashes"));
  edit(1001);
  EXPECT_FALSE(identity_of(copy(), cache) == before);
}

TEST_F(ModelIdentityOfCopies, IsNotReadFromAFileThatChangedAfterItWasOpened) {
  OpenModel model(copy());
  fs::last_write_time(weights_of(copy()), fs::file_time_type::clock::now());
  const std::string text = test::error_of<AgreedError>([&] { model.identity.read(); });
  EXPECT_CONTAINS(text, "do not change a model while it is loaded");
}

}  // namespace
}  // namespace tp
